package pki_test

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

var upn = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}

func allNames(t testing.TB) pki.AltNames {
	t.Helper()
	uri, err := url.Parse("spiffe://example.com/web")
	if err != nil {
		t.Fatal(err)
	}
	return pki.AltNames{
		OtherNames:     []pki.OtherName{{Type: upn, Value: "wéb@example.com"}},
		URIs:           []*url.URL{uri},
		IPAddresses:    []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")},
		EmailAddresses: []string{"web@example.com"},
		DNSNames:       []string{"example.com", "*.example.com"},
	}
}

func parseContent(t testing.TB, c pki.Content, key crypto.Signer) *x509.CertificateRequest {
	t.Helper()
	data, err := c.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.VerifyRequest(req.CertificateRequest); err != nil {
		t.Fatal(err)
	}
	return req.CertificateRequest
}

func TestContentNames(t *testing.T) {
	req := parseContent(t, pki.Content{Names: allNames(t)}, newKey(t, pki.ECDSAP256))
	san := req.Extensions[0]
	if !san.Critical {
		t.Error("names are not critical although there is no subject")
	}
	var names []asn1.RawValue
	if _, err := asn1.Unmarshal(san.Value, &names); err != nil {
		t.Fatal(err)
	}
	var tags []int
	for _, name := range names {
		tags = append(tags, name.Tag)
	}
	if want := []int{2, 2, 1, 7, 7, 6, 0}; !cmp.Equal(tags, want) {
		t.Errorf("names of kinds %v, want %v: DNS, e-mail, IP, URI, other", tags, want)
	}
	if len(names[3].Bytes) != 4 || len(names[4].Bytes) != 16 {
		t.Error("addresses are not in their shortest form")
	}
	others, err := pki.OtherNames(req.Extensions)
	if err != nil || len(others) != 1 || !others[0].Type.Equal(upn) || others[0].Value != "wéb@example.com" {
		t.Errorf("other names read back as %v: %v", others, err)
	}
	if req := parseContent(t, pki.Content{Names: allNames(t), RawSubject: marshal(t, pkix.Name{CommonName: "a"}.ToRDNSequence())}, newKey(t, pki.ECDSAP256)); req.Extensions[0].Critical {
		t.Error("names are critical although there is a subject")
	}
}

func TestContentRefuses(t *testing.T) {
	tests := []struct {
		reason  string
		content pki.Content
		want    string
	}{
		{"a DNS name of other letters", pki.Content{Names: pki.AltNames{DNSNames: []string{"bücher.example"}}}, "punycode"},
		{"an address of five octets", pki.Content{Names: pki.AltNames{IPAddresses: []net.IP{{1, 2, 3, 4, 5}}}}, "IP address is malformed"},
		{"a constraint of other letters", pki.Content{Constraints: &pki.NameConstraints{Permitted: pki.NameTrees{DNSDomains: []string{"bücher.example"}}}}, "other than ASCII"},
		{"another key's algorithm", pki.Content{Algorithm: x509.SHA256WithRSA}, "making certificate request"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := tc.content.Request(newKey(t, pki.ECDSAP256)); !strings.Contains(text(err), tc.want) {
				t.Errorf("error %q, want %q", text(err), tc.want)
			}
		})
	}
}

// Requests list usages as certificates do.
func TestContentUsages(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	for _, name := range []string{"signing", "decipher only", "any", "s/mime", "cert sign", "netscape sgc", "microsoft sgc", "ipsec tunnel"} {
		usages, err := pki.ParseUsagesInOrder([]string{name, "key agreement", "client auth", "server auth", "client auth"})
		if err != nil {
			t.Fatal(err)
		}
		template := caTemplate("ca")
		template.KeyUsage, template.ExtKeyUsage = usages.Key, usages.Extended
		cert := selfSigned(t, template, key)
		for _, extension := range parseContent(t, pki.Content{Usages: &usages}, key).Extensions {
			if diff := cmp.Diff(find(cert, extension.Id), extension); diff != "" {
				t.Errorf("%s: extension %v is not the certificate's:\n%s", name, extension.Id, diff)
			}
		}
	}
	if req := parseContent(t, pki.Content{Usages: &pki.Usages{}}, key); len(req.Extensions) > 0 {
		t.Errorf("lists usages that nobody asked for: %v", req.Extensions)
	}
}

// What is asked for arrives in the certificate, to the byte.
func TestVerbatimTemplate(t *testing.T) {
	_, network, _ := net.ParseCIDR("10.0.0.0/8")
	root := newRoot(t)
	content := pki.Content{
		RawSubject: marshal(t, pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("odd")}}}}),
		Names:      allNames(t),
		Constraints: &pki.NameConstraints{
			Permitted: pki.NameTrees{DNSDomains: []string{"example.com"}, IPRanges: []*net.IPNet{network}, EmailAddresses: []string{"example.com"}, URIDomains: []string{".example.com"}},
			Excluded:  pki.NameTrees{DNSDomains: []string{"bad.example.com"}},
		},
	}
	req := parseContent(t, content, newKey(t, pki.Ed25519))
	template, err := pki.VerbatimTemplate(req, root.Certificate().PublicKey, pki.Terms{
		Usages: pki.Usages{Key: x509.KeyUsageCertSign}, IsCA: true, Validity: hour(), Serial: big.NewInt(7),
		Locations: pki.Locations{CRLs: []string{"http://crl"}, OCSPServers: []string{"http://ocsp"}, IssuerCertificates: []string{"http://ca"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	linted, err := root.LintCA(template, pki.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(req.RawSubject, cert.RawSubject); diff != "" {
		t.Errorf("subject changed on the way:\n%s", diff)
	}
	for _, extension := range req.Extensions {
		if !cmp.Equal(extension, find(cert, extension.Id)) {
			t.Errorf("extension %v changed on the way", extension.Id)
		}
	}
	type facts struct {
		CRLs, OCSP, CA, Permitted, Excluded []string
		PathLength                          int
	}
	got := facts{cert.CRLDistributionPoints, cert.OCSPServer, cert.IssuingCertificateURL, cert.PermittedDNSDomains, cert.ExcludedDNSDomains, cert.MaxPathLen}
	want := facts{[]string{"http://crl"}, []string{"http://ocsp"}, []string{"http://ca"}, []string{"example.com"}, []string{"bad.example.com"}, -1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if cert.PermittedIPRanges[0].String() != "10.0.0.0/8" || cert.PermittedURIDomains[0] != ".example.com" {
		t.Error("constraints changed on the way")
	}
}

func find(cert *x509.Certificate, id asn1.ObjectIdentifier) pkix.Extension {
	for _, extension := range cert.Extensions {
		if extension.Id.Equal(id) {
			return extension
		}
	}
	return pkix.Extension{}
}

// A CA gets the path length that it asks for.
func TestVerbatimTemplateLimitsPathLength(t *testing.T) {
	root := newRoot(t)
	for _, tc := range []struct {
		reason string
		asked  pki.BasicConstraints
		isCA   bool
		want   int // -1: no limit
	}{
		{"none", pki.BasicConstraints{IsCA: true, MaxPathLen: -1}, true, -1},
		{"zero", pki.BasicConstraints{IsCA: true, MaxPathLen: 0}, true, 0},
		{"some", pki.BasicConstraints{IsCA: true, MaxPathLen: 3}, true, 3},
		{"not for a CA", pki.BasicConstraints{IsCA: true, MaxPathLen: 3}, false, -1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			req := newRequest(t, &x509.CertificateRequest{
				Subject:         pkix.Name{CommonName: "ca"},
				ExtraExtensions: []pkix.Extension{{Id: pki.OIDBasicConstraints, Value: marshal(t, tc.asked)}},
			}, newKey(t, pki.ECDSAP256))
			terms := pki.Terms{IsCA: tc.isCA, Validity: hour(), Serial: big.NewInt(7)}
			lint := root.Lint
			if tc.isCA {
				terms.Usages.Key, lint = x509.KeyUsageCertSign, root.LintCA
			}
			template, err := pki.VerbatimTemplate(req, root.Certificate().PublicKey, terms)
			if err != nil {
				t.Fatal(err)
			}
			linted, err := lint(template, pki.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
			if err != nil {
				t.Fatal(err)
			}
			got := cert.MaxPathLen
			if got == 0 && !cert.MaxPathLenZero {
				got = -1
			}
			if got != tc.want {
				t.Errorf("path length %d, want %d", got, tc.want)
			}
		})
	}
}

// Extensions of a request that only an issuer can set are left out; unknown
// extended usages are kept.
func TestVerbatimTemplateLeavesOut(t *testing.T) {
	stapling, strange := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}, asn1.ObjectIdentifier{1, 2, 3, 4}
	root := newRoot(t)
	req := newRequest(t, &x509.CertificateRequest{
		DNSNames: []string{"example.com"},
		ExtraExtensions: []pkix.Extension{
			{Id: stapling, Value: []byte{0x30, 0x03, 0x02, 0x01, 0x05}},
			{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Value: marshal(t, []asn1.ObjectIdentifier{strange, {1, 3, 6, 1, 5, 5, 7, 3, 1}})},
		},
	}, newKey(t, pki.ECDSAP256))
	template, err := pki.VerbatimTemplate(req, root.Certificate().PublicKey, pki.Terms{Validity: hour(), Serial: big.NewInt(7)})
	if err != nil {
		t.Fatal(err)
	}
	cert := sign(t, root, template)
	if find(cert, stapling).Id != nil {
		t.Error("an extension that nobody has judged is in the certificate")
	}
	if len(cert.UnknownExtKeyUsage) != 1 || len(cert.ExtKeyUsage) != 0 {
		t.Errorf("extended usages %v and %v", cert.ExtKeyUsage, cert.UnknownExtKeyUsage)
	}
	if !find(cert, asn1.ObjectIdentifier{2, 5, 29, 17}).Critical {
		t.Error("names are not critical although there is no subject")
	}
}

func TestSignatureAlgorithm(t *testing.T) {
	tests := []struct {
		key  crypto.PublicKey
		want x509.SignatureAlgorithm // unknown: an error
	}{
		{rsaKey(2047), x509.UnknownSignatureAlgorithm},
		{rsaKey(2048), x509.SHA256WithRSA},
		{rsaKey(3071), x509.SHA256WithRSA},
		{rsaKey(3072), x509.SHA384WithRSA},
		{rsaKey(4096), x509.SHA512WithRSA},
		{newKey(t, pki.ECDSAP256).Public(), x509.ECDSAWithSHA256},
		{newKey(t, pki.ECDSAP384).Public(), x509.ECDSAWithSHA384},
		{newKey(t, pki.ECDSAP521).Public(), x509.ECDSAWithSHA512},
		{newKey(t, pki.Ed25519).Public(), x509.PureEd25519},
		{nil, x509.UnknownSignatureAlgorithm},
	}
	for i, tc := range tests {
		got, err := pki.SignatureAlgorithm(tc.key)
		if got != tc.want || (err != nil) != (tc.want == x509.UnknownSignatureAlgorithm) {
			t.Errorf("key %d: %v, error %v, want %v", i, got, err, tc.want)
		}
	}
}

// The hash can be stronger than the standard library would choose.
func TestSignWithStrongerHash(t *testing.T) {
	key := newKey(t, pki.RSA2048)
	ca, err := pki.NewAuthority([]*x509.Certificate{selfSigned(t, caTemplate("root"), key)}, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []x509.SignatureAlgorithm{x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA} {
		template := leafTemplate(t)
		template.SignatureAlgorithm = want
		if cert := sign(t, ca, template); cert.SignatureAlgorithm != want {
			t.Errorf("signed with %v, want %v", cert.SignatureAlgorithm, want)
		}
	}
}

func TestEncodeTraditionalPrivateKey(t *testing.T) {
	for kind, want := range map[pki.KeyType]string{pki.RSA2048: "RSA PRIVATE KEY", pki.ECDSAP256: "EC PRIVATE KEY", pki.Ed25519: "PRIVATE KEY"} {
		key := newKey(t, kind)
		data, err := pki.EncodeTraditionalPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if block, _ := pem.Decode(data); block == nil || block.Type != want {
			t.Errorf("%s is not written as %s", kind, want)
		}
		if back, err := pki.ParsePrivateKey(data); err != nil || !pki.SameKey(back.Public(), key.Public()) {
			t.Errorf("%s does not survive being written: %v", kind, err)
		}
	}
}

func TestGenerateRSAKey(t *testing.T) {
	for _, bits := range []int{2047, 8193} {
		if _, err := pki.GenerateRSAKey(bits); err == nil {
			t.Errorf("%d bits are allowed", bits)
		}
	}
	if key, err := pki.GenerateRSAKey(2056); err != nil || key.Public() == nil {
		t.Errorf("2056 bits: %v", err)
	}
}
