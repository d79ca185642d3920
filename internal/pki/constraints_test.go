package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// text is an attribute value with a type of ASN.1.
func attributeOf(id asn1.ObjectIdentifier, tag int, value string) []byte {
	return set(sequence(der(id), der(asn1.RawValue{Tag: tag, Bytes: []byte(value)})))
}

func der(value any) []byte {
	out, err := asn1.Marshal(value)
	if err != nil {
		panic(err)
	}
	return out
}

func constructed(class, tag int, parts ...[]byte) []byte {
	return der(asn1.RawValue{Class: class, Tag: tag, IsCompound: true, Bytes: bytes.Join(parts, nil)})
}

func sequence(parts ...[]byte) []byte { return constructed(0, asn1.TagSequence, parts...) }
func set(parts ...[]byte) []byte      { return constructed(0, asn1.TagSet, parts...) }
func named(tag int, value []byte) []byte {
	return der(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: value})
}

func directory(rdns ...[]byte) []byte {
	return constructed(asn1.ClassContextSpecific, tagDirectory, sequence(rdns...))
}

func otherNameOf(id asn1.ObjectIdentifier, value string) []byte {
	return constructed(asn1.ClassContextSpecific, tagOtherName, der(id),
		constructed(asn1.ClassContextSpecific, 0, der(asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(value)})))
}

var (
	oidCountry      = asn1.ObjectIdentifier{2, 5, 4, 6}
	oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidUPN          = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}
)

// issuedName is a certificate for tests of constraints.
type issuedName struct {
	reason  string
	subject []byte
	names   [][]byte
	isCA    bool
}

func country(name string) []byte { return attributeOf(oidCountry, asn1.TagPrintableString, name) }
func organization(tag int, name string) []byte {
	return attributeOf(oidOrganization, tag, name)
}

const (
	printable = asn1.TagPrintableString
	utf8Text  = asn1.TagUTF8String
	ia5       = asn1.TagIA5String
)

// constraintBases are subtrees, each permitted in one CA and excluded in another.
var constraintBases = map[string][]byte{
	"DNS nothing":              named(tagDNS, nil),
	"DNS shop.example":         named(tagDNS, []byte("shop.example")),
	"DNS .shop.example":        named(tagDNS, []byte(".shop.example")),
	"DNS WWW.Shop.example":     named(tagDNS, []byte("WWW.Shop.example")),
	"email a@shop.example":     named(tagEmail, []byte("a@shop.example")),
	"email shop.example":       named(tagEmail, []byte("shop.example")),
	"email .shop.example":      named(tagEmail, []byte(".shop.example")),
	"URI shop.example":         named(tagURI, []byte("shop.example")),
	"URI .shop.example":        named(tagURI, []byte(".shop.example")),
	"IP 10.0.0.0/24":           named(tagIP, []byte{10, 0, 0, 0, 255, 255, 255, 0}),
	"IP 0.0.0.0/0":             named(tagIP, make([]byte, 8)),
	"IP ::/0":                  named(tagIP, make([]byte, 32)),
	"directory nothing":        directory(),
	"directory NZ":             directory(country("NZ")),
	"directory NZ, Shop":       directory(country("NZ"), organization(printable, "Shop")),
	"directory nz, SHOP UTF-8": directory(country("nz"), organization(utf8Text, " SHOP ")),
	"directory Shop, NZ":       directory(organization(printable, "Shop"), country("NZ")),
	"directory Zoe":            directory(country("NZ"), organization(utf8Text, "Zo\u00eb  Shop")),
	"directory two in one":     directory(country("NZ"), set(sequence(der(oidOrganization), der("Shop")), sequence(der(OIDCommonName), der("x")))),
	"registered ID":            named(tagRegisteredID, []byte{0x2a, 3, 4}),
	"UPN":                      otherNameOf(oidUPN, "@shop.example"),
	"another other name":       otherNameOf(asn1.ObjectIdentifier{1, 2, 3}, "x"),
	"mailbox":                  otherNameOf(oidMailbox, "shop.example"),
	"EDI party":                constructed(asn1.ClassContextSpecific, 5, constructed(asn1.ClassContextSpecific, 1, der("x"))),
}

// issuedNames are applied to each of them.
func issuedNames() []issuedName {
	x := attributeOf(OIDCommonName, utf8Text, "x")
	var all []issuedName
	alt := func(reason string, names ...[]byte) { all = append(all, issuedName{reason, sequence(), names, false}) }
	subject := func(reason string, rdns ...[]byte) {
		all = append(all, issuedName{reason, sequence(rdns...), nil, false}, issuedName{reason + " of a CA", sequence(rdns...), nil, true})
	}
	for _, name := range []string{"shop.example", "www.shop.example", "WWW.SHOP.EXAMPLE", "notshop.example", "*.shop.example", "*.example", "other.example", "a.www.shop.example"} {
		alt("DNS "+name, named(tagDNS, []byte(name)))
	}
	for _, name := range []string{"a@shop.example", "A@shop.example", "a@SHOP.example", "b@shop.example", "a@www.shop.example", "a@notshop.example"} {
		alt("email "+name, named(tagEmail, []byte(name)))
	}
	for _, name := range []string{"https://shop.example/x", "https://WWW.shop.example", "spiffe://shop.example:8443", "https://notshop.example/", "urn:x:y", "https://10.0.0.1/", "https://a.shop.example:443/y"} {
		alt("URI "+name, named(tagURI, []byte(name)))
	}
	for _, name := range []string{"10.0.0.7", "10.0.1.7", "::1"} {
		alt("IP "+name, named(tagIP, octets(net.ParseIP(name))))
	}
	alt("two DNS names", named(tagDNS, []byte("www.shop.example")), named(tagDNS, []byte("other.example")))
	alt("directory name NZ, Shop", directory(country("NZ"), organization(utf8Text, "Shop"), x))
	alt("directory name AU", directory(country("AU")))
	alt("registered ID", named(tagRegisteredID, []byte{0x2a, 3, 4}))
	alt("another registered ID", named(tagRegisteredID, []byte{0x2a, 3, 5}))
	alt("UPN", otherNameOf(oidUPN, "me@shop.example"))
	alt("UPN and DNS", otherNameOf(oidUPN, "me@shop.example"), named(tagDNS, []byte("shop.example")))
	alt("another other name", otherNameOf(asn1.ObjectIdentifier{1, 2, 3}, "y"))
	subject("NZ, Shop", country("NZ"), organization(printable, "Shop"), x)
	subject("nz,  sHOP as UTF-8", country("nz"), organization(utf8Text, "  sHOP "), x)
	subject("NZ, Shop as BMP", country("NZ"), organization(asn1.TagBMPString, "\x00S\x00h\x00o\x00p"), x)
	subject("NZ, Shop as T61", country("NZ"), organization(asn1.TagT61String, "Shop"), x)
	subject("NZ, Shop as a numeric string", country("NZ"), organization(asn1.TagNumericString, "42"), x)
	subject("NZ, Shops", country("NZ"), organization(printable, "Shops"), x)
	subject("NZ, Zoe", country("NZ"), organization(utf8Text, "ZO\u00eb SHOP"), x)
	subject("NZ, Zoe as T61", country("NZ"), organization(asn1.TagT61String, "Zo\xeb Shop"), x)
	subject("Shop, NZ", organization(printable, "Shop"), country("NZ"), x)
	subject("NZ", country("NZ"))
	subject("AU", country("AU"), organization(printable, "Shop"))
	subject("two in one", country("NZ"), set(sequence(der(oidOrganization), der("Shop")), sequence(der(OIDCommonName), der("x"))))
	subject("common name as host", attributeOf(OIDCommonName, utf8Text, "www.other.example"))
	subject("common name as host within", country("NZ"), attributeOf(OIDCommonName, printable, "www.shop.example"))
	subject("common name with spaces", attributeOf(OIDCommonName, utf8Text, "Shop of other.example"))
	subject("e-mail address", country("NZ"), attributeOf(oidEmailAddress, ia5, "a@shop.example"))
	subject("e-mail address elsewhere", attributeOf(oidEmailAddress, ia5, "a@other.example"))
	subject("e-mail address as UTF-8", attributeOf(oidEmailAddress, utf8Text, "a@shop.example"))
	all = append(all, issuedName{"common name beside a DNS name", sequence(attributeOf(OIDCommonName, utf8Text, "www.other.example")), [][]byte{named(tagDNS, []byte("shop.example"))}, false})
	return all
}

// stricter has what is refused although OpenSSL accepts it, and why.
var stricter = map[string]string{
	"excluded DNS shop.example: DNS *.example":          "the wildcard has the excluded name",
	"excluded DNS WWW.Shop.example: DNS *.shop.example": "the wildcard has the excluded name",
	"excluded URI shop.example: URI https://10.0.0.1/":  "RFC 5280 section 4.2.1.10: such URIs must be refused",
	"excluded URI .shop.example: URI https://10.0.0.1/": "RFC 5280 section 4.2.1.10: such URIs must be refused",
}

type constrainedCA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newConstrained(t *testing.T, constraint []byte, critical bool) constrainedCA {
	t.Helper()
	key, err := GenerateKey(ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "constrained"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1},
		ExtraExtensions: []pkix.Extension{{Id: OIDNameConstraints, Critical: critical, Value: constraint}},
	}
	cert := created(t, template, template, key.Public(), key)
	return constrainedCA{cert, key}
}

func created(t *testing.T, template, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (ca constrainedCA) issue(t *testing.T, name issuedName) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), RawSubject: name.subject, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter, BasicConstraintsValid: true, IsCA: name.isCA,
	}
	if name.isCA {
		template.KeyUsage, template.SubjectKeyId = x509.KeyUsageCertSign, []byte{2}
	}
	if len(name.names) > 0 {
		template.ExtraExtensions = []pkix.Extension{{Id: OIDSubjectAltName, Critical: true, Value: sequence(name.names...)}}
	}
	return created(t, template, ca.cert, ca.key.Public(), ca.key)
}

// opensslAccepts returns which certificates OpenSSL verifies.
func opensslAccepts(t *testing.T, openssl string, ca *x509.Certificate, certs []*x509.Certificate) []bool {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, cert *x509.Certificate) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: CertificateBlockType, Bytes: cert.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{"verify", "-CAfile", write("ca", ca)}
	for i, cert := range certs {
		args = append(args, write(fmt.Sprint("cert", i, ".pem"), cert))
	}
	out, _ := exec.Command(openssl, args...).CombinedOutput() // it fails if one is refused
	accepted := make([]bool, len(certs))
	for i := range certs {
		accepted[i] = strings.Contains(string(out), fmt.Sprint("/cert", i, ".pem: OK\n"))
		if !accepted[i] && !strings.Contains(string(out), fmt.Sprint("/cert", i, ".pem: verification failed")) {
			t.Fatalf("no verdict about %d: %s", i, out)
		}
	}
	return accepted
}

// What OpenSSL refuses is refused, and what it accepts is issued.
func TestConstraintsAsOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("the openssl program is not on this machine: %v", err)
	}
	names := issuedNames()
	pairs, refused := 0, 0
	for base, subtree := range constraintBases {
		for tag, kind := range []string{"permitted", "excluded"} {
			for _, change := range []struct {
				suffix  string
				subtree []byte
			}{{"", sequence(subtree)}, {" with a minimum", sequence(subtree, named(0, []byte{1}))}} {
				if change.suffix != "" && !strings.HasPrefix(base, "registered") && !strings.HasPrefix(base, "directory NZ") {
					continue // the standard library does not read such trees of texts
				}
				ca := newConstrained(t, sequence(constructed(asn1.ClassContextSpecific, tag, change.subtree)), pairs%2 == 0)
				p, err := newProof([]*x509.Certificate{ca.cert})
				if err != nil {
					t.Fatalf("%s %s: %v", kind, base, err)
				}
				certs := make([]*x509.Certificate, len(names))
				for i, name := range names {
					certs[i] = ca.issue(t, name)
				}
				for i, accepts := range opensslAccepts(t, openssl, ca.cert, certs) {
					pairs++
					pair := fmt.Sprintf("%s %s%s: %s", kind, base, change.suffix, names[i].reason)
					err := p.verify(certs[i])
					switch {
					case accepts && stricter[pair] != "":
						accepts = false
					case strings.HasPrefix(names[i].reason, "common name as host") && names[i].isCA && err == nil:
						continue // OpenSSL takes the CA at the end of a path for an end entity
					}
					if accepts != (err == nil) {
						t.Errorf("%s: OpenSSL accepts it: %v, but %v", pair, accepts, err)
					}
					if err != nil {
						refused++
					}
				}
			}
		}
	}
	if pairs < 1000 || refused < 300 {
		t.Errorf("%d pairs, of which %d refused", pairs, refused)
	}
}

// The constraints of CAs above the issuing one count, critical or not.
func TestConstraintsAbove(t *testing.T) {
	for _, critical := range []bool{true, false} {
		root := newConstrained(t, sequence(constructed(asn1.ClassContextSpecific, 0, sequence(constraintBases["DNS shop.example"]), sequence(constraintBases["directory NZ"])),
			constructed(asn1.ClassContextSpecific, 1, sequence(constraintBases["UPN"]))), critical)
		key, err := GenerateKey(ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		low := func(subject []byte) *x509.Certificate {
			template := &x509.Certificate{
				SerialNumber: big.NewInt(3), RawSubject: subject, NotBefore: root.cert.NotBefore, NotAfter: root.cert.NotAfter,
				BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
			}
			return created(t, template, root.cert, key.Public(), root.key)
		}
		if _, err := NewAuthority([]*x509.Certificate{low(sequence(country("AU"))), root.cert}, key); err == nil || !strings.Contains(err.Error(), `directory name "C=AU": is not permitted by the name constraints of the CA CN=constrained`) {
			t.Errorf("a CA that the one above it must not certify: %v", err)
		}
		authority, err := NewAuthority([]*x509.Certificate{low(sequence(country("NZ"))), root.cert}, key)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"www.shop.example": "", "other.example": `DNS name "other.example": is not permitted by the name constraints of the CA CN=constrained`,
		} {
			template := &x509.Certificate{
				SerialNumber: big.NewInt(4), NotBefore: root.cert.NotBefore, NotAfter: root.cert.NotAfter, BasicConstraintsValid: true,
				PublicKey: key.Public(), Subject: pkix.Name{Country: []string{"NZ"}, CommonName: "x"}, DNSNames: []string{name},
			}
			switch _, err := authority.Lint(template, Policy{}); {
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// Other restrictions than name constraints are still those of the standard library.
func TestOtherRestrictions(t *testing.T) {
	ca := newConstrained(t, sequence(constructed(asn1.ClassContextSpecific, 0, sequence(constraintBases["directory NZ"]))), true)
	odd := *ca.cert
	odd.Extensions = append(odd.Extensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true})
	odd.UnhandledCriticalExtensions = append(odd.UnhandledCriticalExtensions, asn1.ObjectIdentifier{1, 2, 3})
	p, err := newProof([]*x509.Certificate{&odd})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := p.issue(&x509.Certificate{
		SerialNumber: big.NewInt(4), NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter, PublicKey: ca.key.Public(), RawSubject: sequence(country("NZ")),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.verify(issued); err == nil || !strings.Contains(err.Error(), "unhandled critical extension") {
		t.Errorf("an extension that is not known: %v", err)
	}
}

// FuzzConstraints reads constraints and names of others.
func FuzzConstraints(f *testing.F) {
	names := sequence(named(tagDNS, []byte("a.example")), directory(country("NZ")), otherNameOf(oidUPN, "x"))
	for _, base := range constraintBases {
		f.Add(sequence(constructed(asn1.ClassContextSpecific, 0, sequence(base))), names, sequence(country("NZ")))
	}
	f.Fuzz(func(t *testing.T, constraint, alternatives, subject []byte) {
		permitted, excluded, err := parseConstraints(constraint)
		if err != nil {
			return
		}
		cert := &x509.Certificate{RawSubject: subject, Extensions: []pkix.Extension{{Id: OIDSubjectAltName, Value: alternatives}}}
		c := constraints{&x509.Certificate{}, permitted, excluded}
		if c.check(cert) != nil {
			return
		}
		read, err := constrainedNames(cert)
		if err != nil {
			t.Fatal("accepted without reading its names")
		}
		for _, name := range read {
			if matchers[name.tag] == nil && len(permitted[name.form])+len(excluded[name.form]) > 0 {
				t.Fatalf("accepted without a rule: %v", name.form)
			}
		}
	})
}
