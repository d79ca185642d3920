package pki_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestNewRequest(t *testing.T) {
	for _, kind := range []pki.KeyType{pki.ECDSAP256, pki.ECDSAP384, pki.Ed25519, pki.RSA2048} {
		t.Run(string(kind), func(t *testing.T) {
			want := pki.Subject{
				CommonName: "alice", Organizations: []string{"admins", "developers"},
				DNSNames: []string{"example.com"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1).To4()},
				URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com"}}, EmailAddresses: []string{"alice@example.com"},
			}
			key := newKey(t, kind)
			data, err := pki.NewRequest(want, key)
			if err != nil {
				t.Fatal(err)
			}
			req, err := pki.ParseRequest(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := pki.VerifyRequest(req.CertificateRequest); err != nil {
				t.Error(err)
			}
			got := pki.Subject{
				CommonName: req.Subject.CommonName, Organizations: req.Subject.Organization,
				DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, URIs: req.URIs, EmailAddresses: req.EmailAddresses,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := pki.NewRequest(pki.Subject{DNSNames: []string{"bücher.example"}}, newKey(t, pki.ECDSAP256)); err == nil {
		t.Error("a name that no request can hold was accepted")
	}
}

func TestNewRoot(t *testing.T) {
	root, err := pki.NewRoot(pki.UnrecordedSigning, "my CA", newKey(t, pki.ECDSAP256), pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	cert := root.Certificate()
	if !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 || cert.Subject.String() != "CN=my CA" {
		t.Errorf("CA %v, key usage %b, subject %s", cert.IsCA, cert.KeyUsage, cert.Subject)
	}
	if !cert.NotAfter.Equal(now.Add(3650*day)) || !cert.NotBefore.Before(now) {
		t.Errorf("valid from %v to %v", cert.NotBefore, cert.NotAfter)
	}
	if len(cert.SubjectKeyId) != 20 || cert.SerialNumber.Sign() <= 0 {
		t.Errorf("key identifier %x, serial %v", cert.SubjectKeyId, cert.SerialNumber)
	}
	if _, err := pki.NewRoot(pki.UnrecordedSigning, "", newKey(t, pki.ECDSAP256), day, now); err == nil {
		t.Error("a CA without a name was made")
	}
}

// What the program issues for itself is recorded, each with its purpose, and
// does not exist if that fails.
func TestOwnCertificatesAreRecorded(t *testing.T) {
	type record struct{ subject, use string }
	var records []record
	var failure error
	by := pki.Issuing{Rand: rand.Reader, Record: func(_ context.Context, cert *x509.Certificate, why pki.Purpose) error {
		records = append(records, record{cert.Subject.CommonName, why.Use})
		return failure
	}}
	root, key := newRoot(t), newKey(t, pki.ECDSAP256)
	issue := func(use string) error {
		signing := by.For(t.Context(), pki.Purpose{Signer: "test", Use: use})
		var err error
		switch use {
		case "root":
			_, err = pki.NewRoot(signing, "a", key, day, now)
		case "CA":
			_, err = root.NewIntermediate(signing, "b", key, day, now)
		case "client":
			_, err = root.Issue(signing, pki.Subject{CommonName: "c"}, key.Public(), pki.ClientUsages(), day, now)
		}
		return err
	}
	want := []record{{"a", "root"}, {"b", "CA"}, {"c", "client"}}
	for _, w := range want {
		if err := issue(w.use); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(records, want) {
		t.Errorf("recorded %v, want %v", records, want)
	}
	failure = errors.New("the disk is full")
	for _, w := range want {
		if err := issue(w.use); !errors.Is(err, failure) {
			t.Errorf("%s exists without a record: %v", w.use, err)
		}
	}
}

func TestNewIntermediate(t *testing.T) {
	root := newRoot(t)
	issuing, err := root.NewIntermediate(pki.UnrecordedSigning, "issuing", newKey(t, pki.ECDSAP256), 100*day, now)
	if err != nil {
		t.Fatal(err)
	}
	cert := issuing.Certificate()
	if !cert.IsCA || !cert.MaxPathLenZero || cert.MaxPathLen != 0 || cert.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || cert.Subject.String() != "CN=issuing" {
		t.Errorf("CA %v, path length %d, key usage %b, subject %s", cert.IsCA, cert.MaxPathLen, cert.KeyUsage, cert.Subject)
	}
	if !cert.NotAfter.Equal(now.Add(100 * day)) {
		t.Errorf("ends at %v", cert.NotAfter)
	}
	if string(cert.AuthorityKeyId) != string(root.Certificate().SubjectKeyId) || len(cert.SubjectKeyId) != 20 {
		t.Errorf("key identifiers: own %x, authority's %x", cert.SubjectKeyId, cert.AuthorityKeyId)
	}
	chain, err := issuing.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "leaf"}, newKey(t, pki.ECDSAP256).Public(), pki.ClientUsages(), day, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 2 || !chain[1].Equal(cert) {
		t.Errorf("a chain of %d, want the leaf and the issuing CA", len(chain))
	}
	assertTrusted(t, chain, root.Certificate())
}

func TestNewIntermediateKeepsWithinItsIssuer(t *testing.T) {
	root := newRoot(t)
	issuing, err := root.NewIntermediate(pki.UnrecordedSigning, "issuing", newKey(t, pki.ECDSAP256), 100*365*day, now)
	if err != nil {
		t.Fatal(err)
	}
	if got := issuing.Certificate(); !got.NotAfter.Equal(root.Certificate().NotAfter) || got.NotBefore.Before(root.Certificate().NotBefore) {
		t.Errorf("valid from %v to %v, longer than the root", got.NotBefore, got.NotAfter)
	}
	if _, err := issuing.NewIntermediate(pki.UnrecordedSigning, "below", newKey(t, pki.ECDSAP256), day, now); err == nil {
		t.Error("an issuing CA made a CA")
	}
	if _, err := root.NewIntermediate(pki.UnrecordedSigning, "late", newKey(t, pki.ECDSAP256), day, now.Add(pki.DefaultRootLifetime+time.Hour)); err == nil {
		t.Error("an expired root made a CA")
	}
}

func TestIssue(t *testing.T) {
	root := newRoot(t)
	subject := pki.Subject{CommonName: "server", DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	key := newKey(t, pki.ECDSAP256)
	chain, err := root.Issue(pki.UnrecordedSigning, subject, key.Public(), pki.ServerUsages(), 365*day, now)
	if err != nil {
		t.Fatal(err)
	}
	assertTrusted(t, chain, root.Certificate())
	leaf := chain[0]
	if err := leaf.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if !leaf.NotAfter.Equal(now.Add(365 * day)) {
		t.Errorf("ends at %v, want all of the lifetime ahead", leaf.NotAfter)
	}
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIssueRefuses(t *testing.T) {
	root, key := newRoot(t), newKey(t, pki.ECDSAP256)
	_, err := root.Issue(pki.UnrecordedSigning, pki.Subject{}, key.Public(), pki.ClientUsages(), day, now)
	if refused := new(pki.RefusedError); !errors.As(err, &refused) {
		t.Errorf("certificate for nobody: error %v", err)
	}
	_, err = root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "late"}, key.Public(), pki.ClientUsages(), day, now.Add(pki.DefaultRootLifetime+time.Hour))
	if expired := new(pki.ExpiredError); !errors.As(err, &expired) {
		t.Errorf("certificate of an expired CA: error %v", err)
	}
}
