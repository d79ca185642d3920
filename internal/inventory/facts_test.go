package inventory

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/pki"
)

// certificate returns a certificate in PEM.
func certificate(t *testing.T, commonName string, names ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0xabc), Subject: pkix.Name{CommonName: commonName}, DNSNames: names,
		NotBefore: start, NotAfter: start.AddDate(0, 0, 1), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func recordOf(t *testing.T, request client.Object, approval *Approval) *inventoryv1alpha1.IssuedCertificate {
	t.Helper()
	a, ok := Look(request)
	if !ok {
		t.Fatalf("a %T is no request", request)
	}
	record, err := a.Record(approval, nil, metav1.NewTime(start))
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func TestRequests(t *testing.T) {
	external := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", OwnerReferences: []metav1.OwnerReference{{Kind: cmv1.CertificateKind, Name: "web", Controller: new(true)}}},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Group: "example.com", Kind: "Vendor", Name: "a"}, Username: "alice"},
		Status: cmv1.CertificateRequestStatus{Certificate: certificate(t, "a"), Conditions: []cmv1.CertificateRequestCondition{
			{Type: cmv1.CertificateRequestConditionApproved, Status: cmmeta.ConditionTrue, Reason: "Fits", Message: `Approved by CertificatePolicy "shop"`},
		}},
	}
	order := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "order", Labels: map[string]string{v1alpha1.AcmeOrderLabel: "o1"}, Annotations: map[string]string{v1alpha1.AcmeOrderAnnotation: "shop/o1"},
		},
		Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/hosts"},
		Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate(t, "a")},
	}
	node := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName},
		Status:     certificatesv1.CertificateSigningRequestStatus{Certificate: certificate(t, "system:node:edge-1")},
	}
	foreign := node.DeepCopy()
	foreign.Spec.SignerName = "example.com/hosts"
	pod := &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "req-1", UID: "u1"},
		Spec:       certificatesv1beta1.PodCertificateRequestSpec{SignerName: "example.com/pods", PodName: "web", NodeName: types.NodeName("edge-1"), ServiceAccountName: "web"},
		Status:     certificatesv1beta1.PodCertificateRequestStatus{CertificateChain: string(certificate(t, ""))},
	}
	for _, tc := range []struct {
		reason            string
		request           client.Object
		approval          *Approval
		signer, requester string
		location          *inventoryv1alpha1.Location
		approvers         []string
		message           string
	}{
		{"of an issuer of another group, for a Certificate as its requester says", external, &Approval{Approver: "bob"}, "Vendor.example.com/a", "alice",
			&inventoryv1alpha1.Location{Kind: "Certificate", Namespace: "shop", Name: "web", Claimed: true}, []string{"bob"}, `Approved by CertificatePolicy "shop"`},
		{"of an order, as the request says", order, nil, "example.com/hosts", "", &inventoryv1alpha1.Location{Kind: "AcmeOrder", Namespace: "shop", Name: "o1", Claimed: true}, nil, ""},
		{"of a node", node, nil, certificatesv1.KubeletServingSignerName, "", &inventoryv1alpha1.Location{Kind: "Node", Name: "edge-1"}, nil, ""},
		{"of a signer that nodes have nothing to do with", foreign, nil, "example.com/hosts", "", nil, nil, ""},
		{"of a pod", pod, nil, "example.com/pods", "system:serviceaccount:shop:web",
			&inventoryv1alpha1.Location{Kind: "Pod", Namespace: "shop", Name: "web", Node: "edge-1"}, nil, ""},
	} {
		got := recordOf(t, tc.request, tc.approval)
		var approvers []string
		message := ""
		if got.Approval != nil {
			approvers, message = got.Approval.Approvers, got.Approval.Message
		}
		if got.SignerName != tc.signer || got.Request.Requester != tc.requester || !slices.Equal(approvers, tc.approvers) || message != tc.message {
			t.Errorf("%s: signer %q, requester %q, approvers %q, message %q", tc.reason, got.SignerName, got.Request.Requester, approvers, message)
		}
		if diff := cmp.Diff(tc.location, got.Location); diff != "" {
			t.Errorf("%s: location (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// What a requester chooses neither stands for what the server knows nor is kept without
// a bound.
func TestRecordsAreBounded(t *testing.T) {
	request := func(labels map[string]string, names ...string) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/" + strings.Repeat("x", 70)},
			Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate(t, "a", names...)},
		}
	}
	got := recordOf(t, request(map[string]string{"team": "shop", inventoryv1alpha1.NamespaceLabel: "kube-system", inventoryv1alpha1.SignerLabel: "other"}), nil)
	want := map[string]string{
		"team": "shop", inventoryv1alpha1.KindLabel: "CertificateSigningRequest", inventoryv1alpha1.NotAfterLabel: fmt.Sprint(start.AddDate(0, 0, 1).Unix()),
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	many := map[string]string{}
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("host-%d.example.com", i))
		if i <= maxLabels {
			many[fmt.Sprint("label-", i)] = "x"
		}
	}
	got = recordOf(t, request(many, names...), nil)
	if got.Labels["label-1"] != "" || len(got.Certificate.DNSNames)+int(got.Certificate.OmittedNames) != len(names) || len(got.Certificate.DNSNames) > 200 {
		t.Errorf("%d labels, %d names and %d omitted", len(got.Labels), len(got.Certificate.DNSNames), got.Certificate.OmittedNames)
	}
	got = recordOf(t, request(nil, strings.Repeat("a", 1<<16), "b.example.com"), nil)
	if len(got.Certificate.DNSNames) != 1 || got.Certificate.OmittedNames != 1 {
		t.Errorf("%d names and %d omitted", len(got.Certificate.DNSNames), got.Certificate.OmittedNames)
	}
	const most = 12 << 10
	long := request(many, names[:1000]...)
	long.Spec.Username = strings.Repeat("é", most)
	long.Status.Certificate = certificate(t, strings.Repeat("n", most), names[:1000]...)
	long.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: strings.Repeat("r", most), Message: strings.Repeat("m", most),
	}}
	by := []inventoryv1alpha1.PolicyFacts{{Name: "shop", Generation: 2, Digest: "sha256:1"}}
	got = recordOf(t, long, &Approval{Approver: strings.Repeat("a", most), Policies: by})
	if !slices.Equal(got.Approval.Policies, by) || got.Certificate.SignatureAlgorithm != "ECDSA-SHA256" {
		t.Errorf("approved by %v, signed with %s", got.Approval.Policies, got.Certificate.SignatureAlgorithm)
	}
	data, err := json.Marshal(got)
	if err != nil || len(data) > most {
		t.Errorf("a record has %d bytes, %v", len(data), err)
	}
}

// A record has what its certificate is revoked by: the digest of its key, and the fingerprint
// that it has with the other form of its signature.
func TestKeyAndTwin(t *testing.T) {
	parsed, err := pki.ParseCertificates(certificate(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	cert := parsed[0]
	digest := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	facts := CertificateFacts(cert)
	if facts.KeyFingerprint != hex.EncodeToString(digest[:]) || len(facts.Twin) != nameLength || facts.Twin == facts.Fingerprint[:nameLength] || !strings.HasPrefix(pki.OtherFingerprint(cert), facts.Twin) {
		t.Errorf("the key is %q and the twin %q", facts.KeyFingerprint, facts.Twin)
	}
	unknown := *cert
	if unknown.PublicKey = nil; CertificateFacts(&unknown).KeyFingerprint != "" {
		t.Error("keys of unknown types have the same digest")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := x509.ParseCertificate(der); err != nil || CertificateFacts(other).Twin != "" || CertificateFacts(other).KeyFingerprint == "" {
		t.Errorf("with Ed25519: %v, %+v", err, CertificateFacts(other))
	}
}

// A million records fit into the disk and the memory that they may take.
func TestRecordsAreSmall(t *testing.T) {
	p := &packing{terms: map[term]struct{}{}}
	for n := range packRecords {
		host := fmt.Sprintf("host-%d.example.com", n)
		request := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("host-%d", n), UID: uuid.NewUUID()},
			Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/hosts", Username: "system:node:" + host},
			Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate(t, host, host), Conditions: []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "PolicyApproved", Message: `Approved by CertificatePolicy "hosts" (generation 1)`,
			}}},
		}
		r := recordOf(t, request, &Approval{Approver: "system:serviceaccount:kube-system:certificate-policies"})
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		p.add(r, data)
	}
	value, err := p.pack().encode(packVersion)
	if size := len(value) / packRecords; err != nil || size > 200 {
		t.Errorf("a record takes %d bytes of its pack, want at most 200, %v", size, err)
	}
}

// Names that records leave out are found in packs too, and records that may have any name.
func TestOmittedNames(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords {
		r := record(n, 1)
		if n%40 == 7 {
			for i := range 300 * (n/40*6 + 1) {
				r.Certificate.DNSNames = append(r.Certificate.DNSNames, fmt.Sprintf("%d.of-%d.example.com", i, n))
			}
			inventory.BoundNames(&r.Certificate)
		}
		w.write(r)
	}
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	for name, want := range map[string][]string{
		"299.of-7.example.com":  {"request-7", "request-47", "request-87"}, // two of them may have any name
		"host-7.example.com":    {"request-7", "request-47", "request-87"},
		"none.of-7.example.com": {"request-47", "request-87"},
		"host-8.example.com":    {"request-8", "request-47", "request-87"},
	} {
		got := find(t, w.Inventory, byField(inventoryv1alpha1.NameField, name))
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: found %q, want %q", name, got, want)
		}
	}
}
