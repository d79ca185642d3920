package authn

import (
	"crypto"
	"crypto/x509"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// someCAs are CAs of clients that can change.
type someCAs struct {
	dynamiccertificates.CAContentProvider
	all      []*x509.Certificate
	listener dynamiccertificates.Listener
}

func (c *someCAs) CurrentCABundleContent() []byte { return pki.EncodeCertificates(c.all...) }

func (c *someCAs) AddListener(l dynamiccertificates.Listener) { c.listener = l }

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRoot(t *testing.T, name string, key crypto.Signer) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func newLeaf(t *testing.T, ca *pki.Authority) *x509.Certificate {
	t.Helper()
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "leaf"}, newKey(t).Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// Clients need not present the CAs that the server trusts.
func TestRefusalBecauseOfTrustedCAs(t *testing.T) {
	key := newKey(t)
	root, other := newRoot(t, "root", key), newRoot(t, "other", newKey(t))
	below, err := root.NewIntermediate(pki.UnrecordedSigning, "below", newKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	user, stranger := newLeaf(t, below), newLeaf(t, other)
	cas, index := &someCAs{}, revocation.NewIndex()
	clients := NewRevokedClients(index, cas)
	check := func(reason string, cert, want *x509.Certificate) {
		t.Helper()
		why := clients.Refusal([]*x509.Certificate{cert})
		if (why == nil) != (want == nil) || why != nil && !why.Certificate.Equal(want) {
			t.Errorf("%s: refused because of %+v, want %v", reason, why, want)
		}
	}
	trust := func(all ...*x509.Certificate) {
		cas.all = all
		cas.listener.Enqueue()
	}
	check("nothing is revoked", user, nil)
	index.Add(revocation.Act{UID: "1", Revision: 1}, []revocation.Entry{revocation.EntryOf(root.Certificate(), time.Now(), pki.ReasonCACompromise)})
	check("a CA that is not trusted", user, nil)
	trust(root.Certificate(), below.Certificate(), other.Certificate())
	check("below a revoked CA", user, root.Certificate())
	check("below another CA", stranger, nil)
	trust(root.Certificate(), below.Certificate(), newRoot(t, "root", key).Certificate())
	check("below a CA with another certificate", user, nil)
	trust(below.Certificate())
	check("below a CA that is trusted itself", user, nil)
}

// With nothing revoked, the check must cost nothing that can be measured.
func TestRefusalAllocatesNothing(t *testing.T) {
	root := newRoot(t, "root", newKey(t))
	below, err := root.NewIntermediate(pki.UnrecordedSigning, "below", newKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	presented := []*x509.Certificate{newLeaf(t, below), below.Certificate()}
	cas, index := &someCAs{all: []*x509.Certificate{root.Certificate()}}, revocation.NewIndex()
	clients := NewRevokedClients(index, cas)
	for _, revoked := range []string{"nothing", "another certificate"} {
		if n := testing.AllocsPerRun(100, func() { clients.Refusal(presented) }); n > 0 {
			t.Errorf("with %s revoked, a check allocates %v times", revoked, n)
		}
		index.Add(revocation.Act{UID: "1", Revision: 1}, []revocation.Entry{revocation.EntryOf(newLeaf(t, below), time.Now(), pki.ReasonUnspecified)})
	}
}
