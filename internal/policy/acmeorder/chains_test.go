package acmeorder_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// An endpoint says which chains clients are offered, and for how long a root has to have
// been published until they get chains to it by default.
func TestPreferredChains(t *testing.T) {
	const signer = "corp.example/hosts"
	oldKey, newKeyOf, middleKey := newKey(t), newKey(t), newKey(t)
	oldRoot := ca{authority(t, "old root", oldKey, nil), oldKey}
	newRoot := ca{authority(t, "new root", newKeyOf, nil), newKeyOf}
	crossed := authority(t, "new root", newKeyOf, &oldRoot)
	middle := ca{authority(t, "middle", middleKey, &newRoot), middleKey}
	e, key := endpoint(t), newKey(t)
	o := finalized(t, e, key, dns("a.corp.example")...)
	byMiddle, _ := middle.issue(t, o, key.Public(), nil)
	byRoot, _ := newRoot.issue(t, o, key.Public(), nil)
	all := []*x509.Certificate{newRoot.cert, crossed, oldRoot.cert}
	// published returns what the endpoint knows of roots, by how many hours ago they were published.
	published := func(hours map[*x509.Certificate]int) (roots []v1alpha1.AcmePublishedRoot) {
		for root, ago := range hours {
			roots = append(roots, acmeorder.PublishRoots(nil, nil, signer, []*x509.Certificate{root}, now.Add(-time.Duration(ago)*time.Hour))...)
		}
		return roots
	}
	type ages = map[*x509.Certificate]int
	for _, tc := range []struct {
		reason    string
		answer    []*x509.Certificate
		cas       []*x509.Certificate
		roots     []string
		overlap   int // in hours
		published ages
		want      []string // the roots of the chains, the default first
	}{
		{"nothing is preferred", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 0, nil, []string{"new root", "old root"}},
		{"the order is the one that is listed", []*x509.Certificate{byMiddle, middle.cert}, all, []string{"old root", "new root"}, 0, nil, []string{"old root", "new root"}},
		{"others are not offered", []*x509.Certificate{byMiddle, middle.cert}, all, []string{"old root"}, 0, nil, []string{"old root"}},
		{"neither is that of the signer", []*x509.Certificate{byRoot}, all, []string{"old root"}, 0, nil, []string{"old root"}},
		{"the signer is a root", []*x509.Certificate{byRoot}, all, []string{"new root", "old root"}, 0, nil, []string{"new root", "old root"}},
		{"no chain leads to it", []*x509.Certificate{byMiddle, middle.cert}, all, []string{"another root"}, 0, nil, []string{"new root", "old root"}},
		{"the new root is not published for long enough", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 24, ages{oldRoot.cert: 1000, newRoot.cert: 23}, []string{"old root", "new root"}},
		{"it is now", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 24, ages{oldRoot.cert: 1000, newRoot.cert: 24}, []string{"new root", "old root"}},
		{"it is not published at all", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 24, ages{oldRoot.cert: 1000}, []string{"old root", "new root"}},
		{"neither is for long enough", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 24, ages{oldRoot.cert: 3, newRoot.cert: 2}, []string{"old root", "new root"}},
		{"nor is, and the new one was there before", []*x509.Certificate{byMiddle, middle.cert}, all, nil, 24, ages{oldRoot.cert: 2, newRoot.cert: 3}, []string{"new root", "old root"}},
		{"the old one is that of another signer", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, crossed}, nil, 24, ages{newRoot.cert: 23}, []string{"old root", "new root"}},
		{"and the new one is there for long enough", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert, crossed}, nil, 24, ages{newRoot.cert: 25}, []string{"new root", "old root"}},
		{"the overlap comes before the list", []*x509.Certificate{byMiddle, middle.cert}, all, []string{"new root", "old root"}, 24, ages{oldRoot.cert: 1000, newRoot.cert: 23}, []string{"old root", "new root"}},
		{"and the list before the signer", []*x509.Certificate{byMiddle, middle.cert}, all, []string{"old root", "new root"}, 24, ages{oldRoot.cert: 1000, newRoot.cert: 100}, []string{"old root", "new root"}},
		{"one chain is offered in any case", []*x509.Certificate{byMiddle, middle.cert}, []*x509.Certificate{newRoot.cert}, []string{"new root"}, 24, nil, []string{"new root"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			profile := &v1alpha1.AcmeProfile{Signer: &v1alpha1.AcmeSigner{Name: signer}}
			for _, root := range tc.roots {
				profile.Chains = append(profile.Chains, v1alpha1.AcmeChain{Root: root})
			}
			if tc.overlap > 0 {
				profile.Overlap = &metav1.Duration{Duration: time.Duration(tc.overlap) * time.Hour}
			}
			status := v1alpha1.AcmeEndpointStatus{Roots: published(tc.published)}
			for _, root := range published(ages{newRoot.cert: 9999}) {
				root.SignerName = "other.example/hosts" // what others publish does not count
				status.Roots = append(status.Roots, root)
			}
			leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{
				PEM: pki.EncodeCertificates(tc.answer...), Roots: func() []*x509.Certificate { return tc.cas }, Lifetime: 720 * time.Hour,
				Prefer: acmeorder.PreferenceOf(&v1alpha1.AcmeEndpoint{Status: status}, profile),
			}, now)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, text := range acmeorder.Chains(changed(t, o, acmeorder.Issue(o, leaf, now))) {
				chain, err := pki.ParseCertificates([]byte(text))
				if err != nil || !chain[0].Equal(tc.answer[0]) {
					t.Fatalf("%v: %s", err, text)
				}
				got = append(got, chain[len(chain)-1].Issuer.CommonName)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A root counts as published since it was seen first, until it is gone.
func TestPublishRoots(t *testing.T) {
	key := newKey(t)
	a, b := authority(t, "a", key, nil), authority(t, "b", newKey(t), nil)
	crossed := authority(t, "b", newKey(t), &ca{a, key})
	first := acmeorder.PublishRoots(nil, nil, "x.example/y", []*x509.Certificate{a, a, crossed}, now)
	if len(first) != 1 || first[0].CommonName != "a" || !first[0].Published.Time.Equal(now) || first[0].Fingerprint != pki.Fingerprint(a) {
		t.Fatalf("%+v", first)
	}
	later := now.Add(time.Hour)
	second := acmeorder.PublishRoots(nil, first, "x.example/y", []*x509.Certificate{b, a}, later)
	if len(second) != 2 || !second[0].Published.Time.Equal(later) || second[1] != first[0] {
		t.Errorf("%+v", second)
	}
	if again := acmeorder.PublishRoots(nil, second[:1], "x.example/y", []*x509.Certificate{a}, later); len(again) != 1 || !again[0].Published.Time.Equal(later) {
		t.Errorf("%+v", again)
	}
	var many []*x509.Certificate
	for range 300 {
		many = append(many, authority(t, "many", key, nil))
	}
	if bounded := acmeorder.PublishRoots(nil, nil, "x.example/y", many, now); len(bounded) > 256 {
		t.Errorf("%d roots", len(bounded))
	}
	profile := &v1alpha1.AcmeProfile{Chains: []v1alpha1.AcmeChain{{Root: "a"}, {Root: "none"}}}
	if unknown := acmeorder.UnknownRoots(profile, []*x509.Certificate{crossed}); !slices.Equal(unknown, []string{"none"}) {
		t.Errorf("%q", unknown)
	}
}
