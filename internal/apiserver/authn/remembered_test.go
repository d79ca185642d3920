package authn

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/certplane/certplane/internal/pki"
)

// counting counts how often a certificate has to be verified.
type counting struct {
	authenticator.Request
	count int
}

func (c *counting) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	c.count++
	return c.Request.AuthenticateRequest(req)
}

// doorkeeper is the tested authenticator, with CAs that can change.
type doorkeeper struct {
	*rememberedCertificates
	proofs *counting
	roots  *x509.CertPool
}

func newDoorkeeper(ca *pki.Authority) *doorkeeper {
	d := &doorkeeper{}
	d.trust(ca)
	d.rememberedCertificates = newRememberedCertificates(func() (x509.VerifyOptions, bool) {
		return x509.VerifyOptions{Roots: d.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
	}, time.Now)
	d.proofs = &counting{Request: d.prove}
	d.prove = d.proofs
	return d
}

func (d *doorkeeper) trust(ca *pki.Authority) {
	d.roots = x509.NewCertPool()
	d.roots.AddCert(ca.Certificate())
}

// ask returns the user of the certificates, or "" if they are not accepted.
func (d *doorkeeper) ask(presented ...*x509.Certificate) string {
	response, ok, err := d.AuthenticateRequest(&http.Request{TLS: &tls.ConnectionState{PeerCertificates: presented}})
	if err != nil || !ok {
		return ""
	}
	return response.User.GetName()
}

func newCA(t *testing.T) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "clients", key, 24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func certificateOf(t *testing.T, ca *pki.Authority, name string, usages pki.Usages) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := ca.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: name}, key.Public(), usages, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

func TestRememberedCertificates(t *testing.T) {
	ours, theirs := newCA(t), newCA(t)
	alice, bob := certificateOf(t, ours, "alice", pki.ClientUsages()), certificateOf(t, ours, "bob", pki.ClientUsages())
	stranger := certificateOf(t, theirs, "stranger", pki.ClientUsages())
	server := certificateOf(t, ours, "server", pki.ServerUsages())
	tests := []struct {
		reason string
		before func(*doorkeeper)
		asked  []*x509.Certificate
		want   string
		proofs int
	}{
		{reason: "a first time", asked: []*x509.Certificate{bob}, want: "bob", proofs: 1},
		{reason: "a second time", asked: []*x509.Certificate{alice}, want: "alice", proofs: 0},
		{reason: "with another certificate beside it", asked: []*x509.Certificate{alice, bob}, want: "alice", proofs: 1},
		{reason: "from a CA that is not trusted", asked: []*x509.Certificate{stranger}, want: "", proofs: 1},
		{reason: "not a client's", asked: []*x509.Certificate{server}, want: "", proofs: 1},
		{reason: "the CA is trusted no more", before: func(d *doorkeeper) { d.trust(theirs) }, asked: []*x509.Certificate{alice}, want: "", proofs: 1},
		{reason: "the CA is read again", before: func(d *doorkeeper) { d.trust(ours) }, asked: []*x509.Certificate{alice}, want: "alice", proofs: 1},
		{reason: "the proof has come to its end", before: func(d *doorkeeper) { d.now = func() time.Time { return alice.NotAfter } },
			asked: []*x509.Certificate{alice}, want: "alice", proofs: 1},
		{reason: "no certificate", want: "", proofs: 1},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			d := newDoorkeeper(ours)
			for range 2 {
				if got := d.ask(alice); got != "alice" {
					t.Fatalf("got %q", got)
				}
			}
			if tt.before != nil {
				tt.before(d)
			}
			d.proofs.count = 0
			if got := d.ask(tt.asked...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if d.proofs.count != tt.proofs {
				t.Errorf("%d proofs, want %d", d.proofs.count, tt.proofs)
			}
		})
	}
}

// However many certificates are presented, few are remembered.
func TestRememberedCertificatesAreFew(t *testing.T) {
	ca := newCA(t)
	d := newDoorkeeper(ca)
	alice := certificateOf(t, ca, "alice", pki.ClientUsages())
	d.ask(alice)
	for i := range maxRemembered {
		d.proven[fingerprint{byte(i), byte(i >> 8), 1}] = provenCertificate{}
	}
	d.ask(certificateOf(t, ca, "bob", pki.ClientUsages()))
	if len(d.proven) != 1 {
		t.Errorf("%d are remembered", len(d.proven))
	}
	if got := d.ask(alice); got != "alice" {
		t.Errorf("got %q", got)
	}
}
