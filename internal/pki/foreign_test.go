package pki_test

import (
	"encoding/asn1"
	"math/big"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// Certificates of other CAs have what RFC 5280 forbids its CAs, but not its
// readers: negative serial numbers and unique identifiers. They are passed on as
// they are.
func TestForeignCertificates(t *testing.T) {
	root, issuing := newCA(t, "root"), newCA(t, "issuing")
	for name, change := range map[string]func(*testing.T, *tbs){
		"negative serial number":     func(_ *testing.T, c *tbs) { c.Serial = big.NewInt(-42) },
		"serial number of zero":      func(_ *testing.T, c *tbs) { c.Serial = big.NewInt(0) },
		"serial number of 32 octets": func(_ *testing.T, c *tbs) { c.Serial = new(big.Int).Lsh(big.NewInt(1), 255) },
		"unique identifiers": func(_ *testing.T, c *tbs) {
			c.IssuerID = asn1.BitString{Bytes: []byte{1, 2}, BitLength: 16}
			c.SubjectID = asn1.BitString{Bytes: []byte{3}, BitLength: 8}
		},
	} {
		t.Run(name, func(t *testing.T) {
			odd := reissued(t, issuing.by(t, root), root.key, change)
			certs, err := pki.ParseCertificates([]byte(block("CERTIFICATE", odd) + block("CERTIFICATE", root.by(t, root).Raw)))
			if err != nil {
				t.Fatal(err)
			}
			authority, err := pki.NewAuthority(certs, issuing.key)
			if err != nil {
				t.Fatal(err)
			}
			leaf := sign(t, authority, leafTemplate(t))
			chain, err := pki.AcceptChain(append(authority.Chain(leaf), authority.Anchor()), pki.Wanted{Key: leaf.PublicKey}, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := chain.Certificates[1].Raw; string(got) != string(odd) {
				t.Error("the CA's certificate has changed")
			}
		})
	}
}
