package acmeorder_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestCheckCSR(t *testing.T) {
	e := endpoint(t)
	key, server, mesh := newKey(t), e.Profile("server"), e.Profile("mesh")
	fresh := *server
	fresh.FreshKey = true
	anySubject, noSubject := *server, *server
	anySubject.Subject, noSubject.Subject = v1alpha1.AcmeSubjectAny, v1alpha1.AcmeSubjectEmptyOrCommonName
	o := newOrder(t, e, append(dns("a.corp.example", "*.a.corp.example"), ip("10.1.2.3")...)...)
	single := newOrder(t, e, dns("a.corp.example")...)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	extension := func(id asn1.ObjectIdentifier, value any) func(*x509.CertificateRequest) {
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return func(r *x509.CertificateRequest) {
			r.ExtraExtensions = append(r.ExtraExtensions, pkix.Extension{Id: id, Value: der})
		}
	}
	named := func(name pkix.Name) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) { r.Subject = name }
	}
	only := func(name string) func(*x509.CertificateRequest) {
		return func(r *x509.CertificateRequest) { r.DNSNames, r.Subject.CommonName = nil, name }
	}
	usageOf := extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 1}, {1, 3, 6, 1, 5, 5, 7, 3, 2}})
	for _, tc := range []struct {
		reason       string
		order        *v1alpha1.AcmeOrder
		key          crypto.Signer
		change       func(*x509.CertificateRequest)
		der          func([]byte) []byte
		profile      *v1alpha1.AcmeProfile
		tolerate     v1alpha1.AcmeTolerance
		facts        acmeorder.KeyFacts
		copies       bool
		verbatim     bool
		kind, detail string
	}{
		{reason: "good"},
		{reason: "upper case", change: func(r *x509.CertificateRequest) { r.DNSNames[0] = "A.Corp.Example" }},
		{reason: "not DER", der: func([]byte) []byte { return []byte("x") }, kind: "badCSR", detail: "parsed"},
		{reason: "empty", der: func([]byte) []byte { return nil }, kind: "badCSR"},
		{reason: "large", der: func([]byte) []byte { return make([]byte, 16385) }, kind: "badCSR", detail: "16385 bytes"},
		{reason: "PEM", der: func(der []byte) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}, kind: "badCSR", detail: "is in PEM"},
		{reason: "bytes after it", der: func(der []byte) []byte { return append(der, 0) }, kind: "badCSR"},
		{reason: "a name that other programs read differently", change: named(pkix.Name{Organization: []string{"x\x00y"}}), kind: "badCSR", detail: "NUL"},
		{reason: "a broken signature", der: func(der []byte) []byte { der[len(der)-1] ^= 1; return der }, kind: "badCSR", detail: "signature"},
		{reason: "another version", der: func(der []byte) []byte { return withVersion(t, der, 2, key.(*ecdsa.PrivateKey)) }},
		{reason: "another version for a signer that copies", copies: true, der: func(der []byte) []byte { return withVersion(t, der, 2, key.(*ecdsa.PrivateKey)) }, kind: "badCSR", detail: "version 1"},
		{reason: "another version, tolerated", copies: true, der: func(der []byte) []byte { return withVersion(t, der, 2, key.(*ecdsa.PrivateKey)) }, tolerate: v1alpha1.AcmeTolerateOtherCSRVersions},
		{reason: "another version, tolerated, and a broken signature", der: func(der []byte) []byte { return withVersion(t, der, 2, p384) }, tolerate: v1alpha1.AcmeTolerateOtherCSRVersions, kind: "badCSR", detail: "signature"},
		{reason: "a small key", key: small, kind: "badCSR", detail: "1024 bits"},
		{reason: "a type of keys that the profile lacks", key: p384, kind: "badCSR", detail: "ECDSAP384"},
		{reason: "the key of an account", facts: acmeorder.KeyFacts{OfAccount: func(k crypto.PublicKey) bool { return key.Public().(*ecdsa.PublicKey).Equal(k) }}, kind: "badCSR", detail: "of an account"},
		{reason: "a blocked key", facts: acmeorder.KeyFacts{Blocked: func(string) bool { return true }}, kind: "badCSR", detail: "compromised"},
		{reason: "a used key", facts: acmeorder.KeyFacts{Used: func(string) bool { return true }}},
		{reason: "a used key where it must be fresh", profile: &fresh, facts: acmeorder.KeyFacts{Used: func(string) bool { return true }}, kind: "badCSR", detail: "new key"},
		{reason: "a name more", change: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "b.corp.example") }, kind: "badCSR", detail: `"b.corp.example", which was not ordered`},
		{reason: "a name less", change: func(r *x509.CertificateRequest) { r.DNSNames = r.DNSNames[:1] }, kind: "badCSR", detail: `lacks "*.a.corp.example"`},
		{reason: "an address less", change: func(r *x509.CertificateRequest) { r.IPAddresses = nil }, kind: "badCSR", detail: `lacks "10.1.2.3"`},
		{reason: "a name twice", change: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "A.corp.example") }},
		{reason: "a name twice for a signer that copies", copies: true, change: func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "A.corp.example") }, kind: "badCSR", detail: "twice"},
		{reason: "an address twice, in two forms", change: func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: generalNames(t, r.DNSNames, net.IP{10, 1, 2, 3}, net.ParseIP("10.1.2.3"))}}
		}},
		{reason: "a dot at the end of a common name", change: named(pkix.Name{CommonName: "a.corp.example."})},
		{reason: "an address as a name", change: func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = append(r.DNSNames, "10.1.2.3"), nil }, kind: "badCSR"},
		{reason: "another address", change: func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.ParseIP("10.1.2.4")} }, kind: "badCSR"},
		{reason: "an e-mail address", change: func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@corp.example"} }, kind: "badCSR", detail: "other than"},
		{reason: "a URI", change: func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, kind: "badCSR", detail: "other than"},
		{reason: "a common name", change: named(pkix.Name{CommonName: "A.corp.example"})},
		{reason: "a wildcard as common name", change: named(pkix.Name{CommonName: "*.a.corp.example"})},
		{reason: "a foreign common name", change: named(pkix.Name{CommonName: "b.corp.example"}), kind: "badCSR", detail: "common name"},
		{reason: "an address as common name", change: named(pkix.Name{CommonName: "10.1.2.3"})},
		{reason: "an address as common name alone", change: func(r *x509.CertificateRequest) { r.IPAddresses, r.Subject.CommonName = nil, "10.1.2.3" }},
		{reason: "one name is the common name, the others are alternative names", change: func(r *x509.CertificateRequest) {
			r.DNSNames, r.Subject.CommonName = []string{"*.a.corp.example"}, "a.corp.example"
		}},
		{reason: "one name is the common name, for a signer that copies", copies: true, change: func(r *x509.CertificateRequest) {
			r.DNSNames, r.Subject.CommonName = []string{"*.a.corp.example"}, "a.corp.example"
		}, kind: "badCSR", detail: "lacks"},
		{reason: "a common name alone", order: single, change: only("a.corp.example")},
		{reason: "a common name alone, for a signer that copies", copies: true, order: single, change: only("a.corp.example"), kind: "badCSR", detail: "no subjectAltName"},
		{reason: "a common name alone, for a signer that copies, tolerated", copies: true, order: single, change: only("a.corp.example"), tolerate: v1alpha1.AcmeTolerateCommonNameOnly},
		{reason: "a foreign common name alone, tolerated", order: single, change: only("b.corp.example"), tolerate: v1alpha1.AcmeTolerateCommonNameOnly, kind: "badCSR"},
		{reason: "a common name alone of an order of more", change: func(r *x509.CertificateRequest) {
			r.DNSNames, r.IPAddresses, r.Subject.CommonName = nil, nil, "a.corp.example"
		}, tolerate: v1alpha1.AcmeTolerateCommonNameOnly, kind: "badCSR", detail: "lacks"},
		{reason: "a subject for a signer", change: named(pkix.Name{Organization: []string{"x"}})},
		{reason: "a subject for an issuer", change: named(pkix.Name{Organization: []string{"x"}}), profile: mesh},
		{reason: "a subject for a signer that copies", copies: true, change: named(pkix.Name{Organization: []string{"system:nodes"}}), kind: "badCSR", detail: "more than a common name"},
		{reason: "a subject for a signer that copies, whatever the profile says", copies: true, profile: &anySubject, change: named(pkix.Name{Organization: []string{"system:nodes"}}), kind: "badCSR", detail: "more than a common name"},
		{reason: "a subject where the profile wants none", profile: &noSubject, change: named(pkix.Name{Organization: []string{"x"}}), kind: "badCSR", detail: "more than a common name"},
		{reason: "two common names for a signer that copies", copies: true, change: func(r *x509.CertificateRequest) {
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "a.corp.example"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "*.a.corp.example"}}
		}, kind: "badCSR", detail: "more than a common name"},
		{reason: "usages of an issuer that does not look at them", profile: mesh, change: usageOf},
		{reason: "usages of an issuer that copies", copies: true, profile: mesh, change: usageOf, kind: "badCSR", detail: "ask for the usages of the profile, or for none"},
		{reason: "usages of an issuer that passes requests on", verbatim: true, profile: mesh, change: usageOf, kind: "badCSR", detail: "ask for the usages of the profile, or for none"},
		{reason: "usages of a signer that passes requests on", verbatim: true, change: usageOf, kind: "badCSR", detail: "ask for the usages of the profile, or for none"},
		{reason: "a subject for an issuer that passes requests on", verbatim: true, profile: mesh, change: named(pkix.Name{Organization: []string{"x"}}), kind: "badCSR", detail: "more than a common name"},
		{reason: "a common name alone, for an issuer that passes requests on", verbatim: true, order: single, profile: mesh, change: only("a.corp.example")},
		{reason: "a common name for an issuer", change: named(pkix.Name{CommonName: "a.corp.example"}), profile: mesh},
		{reason: "a CA", change: extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct{ IsCA bool }{true}), kind: "badCSR", detail: "CA"},
		{reason: "not a CA", change: extension(asn1.ObjectIdentifier{2, 5, 29, 19}, struct {
			IsCA bool `asn1:"optional"`
		}{false})},
		{reason: "name constraints", change: extension(asn1.ObjectIdentifier{2, 5, 29, 30}, []int{}), kind: "badCSR", detail: "name constraints"},
		{reason: "must-staple", change: extension(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}, []int{5})},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			order, signer, profile := o, key, server
			if tc.order != nil {
				order = tc.order
			}
			if tc.key != nil {
				signer = tc.key
			}
			if tc.profile != nil {
				profile = tc.profile
			}
			der := csrFor(t, signer, order, tc.change)
			if tc.der != nil {
				der = tc.der(der)
			}
			csr, p := acmeorder.CheckCSR(order, der, profile, []v1alpha1.AcmeTolerance{tc.tolerate}, tc.facts, acmeorder.SignerFacts{TakesNamesOnly: !tc.copies, Verbatim: tc.verbatim})
			assertProblem(t, p, tc.kind, tc.detail)
			if (csr == nil) != (tc.kind != "") {
				t.Errorf("request %v", csr)
			}
		})
	}
}

func TestCheckCSRWeakSignature(t *testing.T) {
	e := endpoint(t)
	o := newOrder(t, e, dns("a.corp.example")...)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der := csrFor(t, key, o, func(r *x509.CertificateRequest) { r.SignatureAlgorithm = x509.SHA1WithRSA })
	_, p := acmeorder.CheckCSR(o, der, e.Profile("server"), nil, acmeorder.KeyFacts{}, acmeorder.SignerFacts{})
	assertProblem(t, p, "badCSR", "SHA-256 or stronger")
	_, p = acmeorder.CheckCSR(o, csrFor(t, key, o, nil), e.Profile("server"), nil, acmeorder.KeyFacts{}, acmeorder.SignerFacts{})
	assertProblem(t, p, "", "")
}

func FuzzCheckCSR(f *testing.F) {
	e := endpoint(f)
	o := newOrder(f, e, dns("a.corp.example")...)
	f.Add(csrFor(f, newKey(f), o, nil))
	f.Fuzz(func(t *testing.T, der []byte) {
		csr, p := acmeorder.CheckCSR(o, der, e.Profile("server"), nil, acmeorder.KeyFacts{}, acmeorder.SignerFacts{})
		if (csr == nil) == (p == nil) {
			t.Errorf("%v, %v", csr, p)
		}
	})
}

// generalNames returns the value of a subjectAltName extension, with addresses as they are.
func generalNames(t *testing.T, dns []string, ips ...net.IP) []byte {
	t.Helper()
	var names []asn1.RawValue
	for _, name := range dns {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte(name)})
	}
	for _, ip := range ips {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 7, Bytes: ip})
	}
	der, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// withVersion returns a certificate request with another version, signed again.
func withVersion(t *testing.T, der []byte, version byte, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	var parts struct {
		Info, Algorithm asn1.RawValue
		Signature       asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		t.Fatal(err)
	}
	info := parts.Info.FullBytes
	info[bytes.Index(info, []byte{asn1.TagInteger, 1, 0})+2] = version
	digest := sha256.Sum256(info)
	signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	parts.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	if der, err = asn1.Marshal(parts); err != nil {
		t.Fatal(err)
	}
	return der
}
