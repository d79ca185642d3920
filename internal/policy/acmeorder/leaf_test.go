package acmeorder_test

import (
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestCheckLeaf(t *testing.T) {
	e := endpoint(t)
	key, other, issuer := newKey(t), newKey(t), newCA(t)
	o := finalized(t, e, key, append(dns("a.corp.example", "*.a.corp.example"), ip("10.1.2.3")...)...)
	bounded := o.DeepCopy()
	bounded.Spec.NotAfter = moment(now.Add(time.Hour))
	for _, tc := range []struct {
		reason string
		order  *v1alpha1.AcmeOrder
		change func(*x509.Certificate)
		want   string
	}{
		{"good", o, nil, ""},
		{"upper case", o, func(c *x509.Certificate) { c.DNSNames[0] = "A.CORP.example" }, ""},
		{"a name more", o, func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "b.corp.example") }, "was not ordered"},
		{"a name less", o, func(c *x509.Certificate) { c.DNSNames = c.DNSNames[:1] }, "lacks"},
		{"another address", o, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("10.1.2.4")} }, "was not ordered"},
		{"an e-mail address", o, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@corp.example"} }, "other than"},
		{"a CA", o, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, "CA"},
		{"a usage of CAs", o, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign }, "CA"},
		{"begins soon", o, func(c *x509.Certificate) { c.NotBefore = now.Add(5 * time.Minute) }, ""},
		{"begins later", o, func(c *x509.Certificate) { c.NotBefore = now.Add(5*time.Minute + time.Second) }, "in the future"},
		{"has expired", o, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now }, "expired"},
		{"ends a bit late", o, func(c *x509.Certificate) { c.NotAfter = now.Add(720*time.Hour + time.Minute) }, ""},
		{"ends late", o, func(c *x509.Certificate) { c.NotAfter = now.Add(720*time.Hour + 61*time.Second) }, "later than asked for"},
		{"ends as the client asked", bounded, func(c *x509.Certificate) { c.NotAfter = now.Add(time.Hour) }, ""},
		{"ends later than the client asked", bounded, func(c *x509.Certificate) { c.NotAfter = now.Add(time.Hour + 2*time.Minute) }, "later than asked for"},
		{"the longest serial number", o, func(c *x509.Certificate) { c.SerialNumber = new(big.Int).Lsh(big.NewInt(1), 158) }, ""},
		{"a taken serial number", o, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(0xdead) }, "same serial number"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, chain := issuer.issue(t, tc.order, key.Public(), tc.change)
			taken := func(_ []byte, serial string) bool { return serial == "dead" }
			leaf, err := acmeorder.CheckLeaf(tc.order, acmeorder.Issued{PEM: chain, Lifetime: 720 * time.Hour, SerialTaken: taken}, now)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			if (leaf == nil) != (tc.want != "") {
				t.Errorf("leaf %v", leaf)
			}
		})
	}

	cert, chain := issuer.issue(t, o, key.Public(), nil)
	foreign := newCA(t)
	_, mine := issuer.issue(t, o, other.Public(), nil)
	for reason, pem := range map[string][]byte{
		"another key": mine, "the chain of another CA": pki.EncodeCertificates(cert, foreign.cert), "no certificate": []byte("x"), "nothing": nil,
		"the CA first": pki.EncodeCertificates(issuer.cert, cert),
	} {
		if leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: pem, Lifetime: 720 * time.Hour}, now); err == nil || leaf != nil {
			t.Errorf("%s is accepted", reason)
		}
	}

	// certbot refuses a chain of one certificate.
	roots := func() []*x509.Certificate { return []*x509.Certificate{foreign.cert, issuer.cert} }
	for reason, pem := range map[string][]byte{"the certificate alone": pki.EncodeCertificates(cert), "with its root": pki.EncodeCertificates(cert, issuer.cert)} {
		leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: pem, Roots: roots, Lifetime: 720 * time.Hour}, now)
		if err != nil || leaf.Record().Chain != string(pki.EncodeCertificates(cert, issuer.cert)) {
			t.Errorf("%s: the chain is not the certificate and its root: %v", reason, err)
		}
	}

	leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: chain, Lifetime: 720 * time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	record := leaf.Record()
	if record.Serial != "90ab" || record.CertID != "AQIDBA.AJCr" || !record.NotAfter.Time.Equal(cert.NotAfter) || record.Chain != string(pki.EncodeCertificates(cert, issuer.cert)) {
		t.Errorf("%+v", record)
	}
	wrong := acmeorder.WrongLeaf(mine, now)
	if wrong == nil || wrong.Revoked == nil || wrong.Chain != "" {
		t.Errorf("%+v", wrong)
	}
	failed := acmeorder.Fail(o, acmeorder.WrongLeafProblem(), wrong, now)
	if failed == nil || failed.State != "invalid" || failed.Certificate.Revoked == nil {
		t.Errorf("%+v", failed)
	}
}
