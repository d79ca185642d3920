package keyuse_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/request"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func use(uid string, key, owner byte, age time.Duration, change ...func(*keyuse.Use)) *keyuse.Use {
	u := &keyuse.Use{Kind: v1alpha1.CertificateRequests, Namespace: "shop", Name: "web-" + uid, UID: uid, Created: now.Add(-age), Key: keyuse.Digest{key}, Owner: keyuse.Digest{owner}}
	for _, c := range change {
		c(u)
	}
	return u
}

func issued(u *keyuse.Use)  { u.Issued = true }
func refused(u *keyuse.Use) { u.Refused = true }

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		reason         string
		of             *keyuse.Use
		all            []*keyuse.Use
		same, previous string
	}{
		{reason: "nobody else", of: use("b", 1, 1, 0), all: []*keyuse.Use{use("b", 1, 1, 0)}},
		{reason: "an older request with the key", of: use("b", 1, 1, 0), all: []*keyuse.Use{use("a", 1, 2, time.Hour)}, same: "web-a"},
		{reason: "the first of two", of: use("c", 1, 1, 0), all: []*keyuse.Use{use("b", 1, 2, time.Minute), use("a", 1, 3, time.Hour)}, same: "web-a"},
		{reason: "a younger request", of: use("b", 1, 1, time.Hour), all: []*keyuse.Use{use("a", 1, 2, 0)}},
		{reason: "a younger request that has its certificate", of: use("b", 1, 1, time.Hour), all: []*keyuse.Use{use("a", 1, 2, 0, issued)}, same: "web-a"},
		{reason: "both have their certificates", of: use("b", 1, 1, time.Hour, issued), all: []*keyuse.Use{use("a", 1, 2, 0, issued)}},
		{reason: "an older request that was refused has the key nevertheless", of: use("b", 1, 1, 0), all: []*keyuse.Use{use("a", 1, 2, time.Hour, refused)}, same: "web-a"},
		{reason: "of the same second, the smaller UID", of: use("b", 1, 1, 0), all: []*keyuse.Use{use("a", 1, 2, 0), use("c", 1, 2, 0)}, same: "web-a"},
		{reason: "not stored yet", of: use("", 1, 1, time.Hour), all: []*keyuse.Use{use("a", 1, 1, 0)}, same: "web-a", previous: "web-a"},
		{reason: "a key that cannot be read is nobody's", of: use("b", 0, 1, 0), all: []*keyuse.Use{use("a", 0, 1, time.Hour)}},
		{reason: "the owner's last request", of: use("d", 1, 1, 0), all: []*keyuse.Use{use("a", 2, 1, 2*time.Hour, issued), use("b", 3, 1, time.Hour), use("c", 4, 2, time.Minute)}, previous: "web-b"},
		{reason: "not one that was refused", of: use("d", 1, 1, 0), all: []*keyuse.Use{use("a", 2, 1, 2*time.Hour, issued), use("b", 3, 1, time.Hour, refused)}, previous: "web-a"},
		{reason: "not a later one", of: use("a", 1, 1, time.Hour), all: []*keyuse.Use{use("b", 2, 1, 0)}},
	} {
		got := keyuse.Find(tt.of, tt.all, tt.all)
		if name(got.Same) != tt.same || name(got.Previous) != tt.previous {
			t.Errorf("%s: the same key has %q, the previous is %q; want %q, %q", tt.reason, name(got.Same), name(got.Previous), tt.same, tt.previous)
		}
	}
}

func name(r *v1alpha1.StoredRequest) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// TestOneIsFirst: of any requests with one key, exactly one may have it, in whatever
// order they are listed.
func TestOneIsFirst(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var all []*keyuse.Use
		for i := range 1 + random.IntN(6) {
			all = append(all, use(fmt.Sprint(i), 1, byte(i), time.Duration(random.IntN(3))*time.Second, func(u *keyuse.Use) { u.Issued, u.Refused = random.IntN(3) == 0, random.IntN(3) == 0 }))
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		first := 0
		for _, u := range all {
			if keyuse.Find(u, all, nil).Same == nil {
				first++
			}
		}
		if first != 1 {
			t.Fatalf("%d of %d requests are first", first, len(all))
		}
	}
}

func pem(t *testing.T, subject pki.Subject) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(subject, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestOwnerOf: whose a request is.
func TestOwnerOf(t *testing.T) {
	cr := func(user, signer, uid string, names ...string) keyuse.Digest {
		object := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: cmv1.CertificateRequestSpec{
			Username: user, IssuerRef: cmmeta.IssuerReference{Name: signer}, Request: pem(t, pki.Subject{CommonName: "web", DNSNames: names}),
		}}
		if uid != "" {
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: "web", UID: types.UID(uid), Controller: new(true)}}
		}
		r := request.FromCertificateRequest(object)
		return keyuse.OwnerOf(&r)
	}
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Username: "alice", SignerName: "issuers.cert-manager.io/shop.own", Request: pem(t, pki.Subject{CommonName: "web", DNSNames: []string{"a", "b"}}),
	}}
	r := request.FromCSR(csr)
	plain, owned := cr("alice", "own", "", "a", "b"), cr("controller", "own", "1", "a", "b")
	for _, tt := range []struct {
		reason string
		a, b   keyuse.Digest
		same   bool
	}{
		{"the same content with another key", plain, cr("alice", "own", "", "b", "a"), true},
		{"another requester", plain, cr("bob", "own", "", "a", "b"), false},
		{"another issuer", plain, cr("alice", "other", "", "a", "b"), false},
		{"another name", plain, cr("alice", "own", "", "a", "b", "c"), false},
		{"another kind", plain, keyuse.OwnerOf(&r), false},
		{"a Certificate with other names", owned, cr("controller", "other", "1", "c"), true},
		{"another Certificate", owned, cr("controller", "own", "2", "a", "b"), false},
		{"somebody who names the Certificate", owned, cr("alice", "own", "1", "a", "b"), false},
	} {
		if (tt.a == tt.b) != tt.same {
			t.Errorf("%s: the same owner is %t", tt.reason, !tt.same)
		}
	}
}

// TestStateOf: what a request of each kind has come to.
func TestStateOf(t *testing.T) {
	condition := func(kind, status, reason string) *cmv1.CertificateRequest {
		return &cmv1.CertificateRequest{Status: cmv1.CertificateRequestStatus{Conditions: []cmv1.CertificateRequestCondition{
			{Type: cmv1.CertificateRequestConditionType(kind), Status: cmmeta.ConditionStatus(status), Reason: reason},
		}}}
	}
	for _, tt := range []struct {
		object any
		want   keyuse.State
	}{
		{&certificatesv1.CertificateSigningRequest{}, keyuse.State{}},
		{&certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Certificate: []byte("x")}}, keyuse.State{Issued: true}},
		{&certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}, {Type: "Failed"}}}}, keyuse.State{Refused: true}},
		{condition("Ready", "False", "Pending"), keyuse.State{}},
		{condition("Ready", "False", "Failed"), keyuse.State{Refused: true}},
		{condition("Denied", "True", "x"), keyuse.State{Refused: true}},
		{condition("Denied", "False", "x"), keyuse.State{}},
		{&certificatesv1beta1.PodCertificateRequest{Status: certificatesv1beta1.PodCertificateRequestStatus{CertificateChain: "x"}}, keyuse.State{Issued: true}},
		{&certificatesv1beta1.PodCertificateRequest{Status: certificatesv1beta1.PodCertificateRequestStatus{Conditions: []metav1.Condition{{Type: "Denied"}}}}, keyuse.State{Refused: true}},
		{nil, keyuse.State{}},
	} {
		if got := keyuse.StateOf(tt.object); got != tt.want {
			t.Errorf("%T: %+v, want %+v", tt.object, got, tt.want)
		}
	}
}
