package wanted_test

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

func newKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// full asks for everything.
func full() *cmv1.CertificateSpec {
	return &cmv1.CertificateSpec{
		CommonName: "web",
		Subject: &cmv1.X509Subject{
			Organizations: []string{"Shop", "Fair"}, Countries: []string{"DE"}, OrganizationalUnits: []string{"IT"}, Localities: []string{"Berlin"},
			Provinces: []string{"BE"}, StreetAddresses: []string{"Weg 1"}, PostalCodes: []string{"10115"}, SerialNumber: "7",
		},
		DNSNames: []string{"example.com", "*.example.com"}, IPAddresses: []string{"10.0.0.1", "FD00::1"}, URIs: []string{"spiffe://example.com/web"},
		EmailAddresses: []string{"web@example.com"}, OtherNames: []cmv1.OtherName{{OID: "1.3.6.1.4.1.311.20.2.3", UTF8Value: "wéb@example.com"}},
		Usages: []cmv1.KeyUsage{cmv1.UsageServerAuth, cmv1.UsageClientAuth, cmv1.UsageSigning}, Duration: &metav1.Duration{Duration: time.Hour},
		IssuerRef: cmmeta.IssuerReference{Name: "ca"},
	}
}

func request(t testing.TB, spec *cmv1.CertificateSpec, key crypto.Signer) *cmv1.CertificateRequestSpec {
	t.Helper()
	data, err := wanted.Request(spec, key)
	if err != nil {
		t.Fatal(err)
	}
	return &cmv1.CertificateRequestSpec{Request: data, Usages: spec.Usages, IsCA: spec.IsCA, IssuerRef: spec.IssuerRef, Duration: spec.Duration}
}

// specs are Certificates of all sorts.
var specs = map[string]func(*cmv1.CertificateSpec){
	"everything":         func(*cmv1.CertificateSpec) {},
	"nothing but a name": func(s *cmv1.CertificateSpec) { *s = cmv1.CertificateSpec{DNSNames: []string{"example.com"}} },
	"a CA with constraints": func(s *cmv1.CertificateSpec) {
		s.IsCA, s.NameConstraints = true, &cmv1.NameConstraints{Critical: true, Permitted: &cmv1.NameConstraintItem{DNSDomains: []string{"example.com"}, IPRanges: []string{"10.0.0.0/8"}}}
	},
	"a literal subject": func(s *cmv1.CertificateSpec) {
		s.CommonName, s.Subject, s.LiteralSubject = "", nil, `CN=web\, shop+UID=7,OU=IT,DC=example,DC=com`
	},
	"names twice": func(s *cmv1.CertificateSpec) {
		s.DNSNames = append(s.DNSNames, s.DNSNames[0], strings.ToUpper(s.DNSNames[0]))
		s.IPAddresses = append(s.IPAddresses, "fd00::7", "fd00:0::7")
		s.URIs = append(s.URIs, s.URIs...)
	},
	"usages elsewhere": func(s *cmv1.CertificateSpec) { s.EncodeUsagesInRequest = ptr.To(false) },
}

// What is made for a Certificate is what it wants, and passes admission.
func TestRequest(t *testing.T) {
	for name, change := range specs {
		t.Run(name, func(t *testing.T) {
			spec := full()
			change(spec)
			spec.PrivateKey = &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm}
			made := request(t, spec, newKey(t, pki.ECDSAP256))
			if differences, err := wanted.RequestDifferences(spec, made); err != nil || differences != nil {
				t.Errorf("differs in %v, error %v", differences, err)
			}
			if repeated, err := wanted.IsRepeated(spec, made); err != nil || !repeated {
				t.Errorf("another attempt would ask for something else, error %v", err)
			}
			if err := certmanager.CheckRequest(made); err != nil {
				t.Errorf("admission refuses it: %v", err)
			}
		})
	}
}

// Before its key is made, the request has the same content.
func TestUnsigned(t *testing.T) {
	for name, change := range specs {
		for _, key := range []*cmv1.CertificatePrivateKey{
			nil, {Size: 3080}, {Algorithm: cmv1.ECDSAKeyAlgorithm}, {Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 521}, {Algorithm: cmv1.Ed25519KeyAlgorithm},
		} {
			spec := full()
			change(spec)
			spec.PrivateKey = key
			data, err := wanted.Unsigned(spec)
			if err != nil {
				t.Fatalf("%s, %+v: %v", name, key, err)
			}
			made := &cmv1.CertificateRequestSpec{Request: data, Usages: spec.Usages, IsCA: spec.IsCA, IssuerRef: spec.IssuerRef, Duration: spec.Duration}
			if differences, err := wanted.RequestDifferences(spec, made); err != nil || differences != nil {
				t.Errorf("%s, %+v: differs in %v, error %v", name, key, differences, err)
			}
			csr, err := certmanager.ParseRequest(data)
			if err != nil {
				t.Fatal(err)
			}
			if differences := wanted.KeyDifferences(spec, csr.PublicKey); differences != nil {
				t.Errorf("%s, %+v: the key differs in %v", name, key, differences)
			}
		}
	}
	for _, key := range []*cmv1.CertificatePrivateKey{{Size: 1 << 30}, {Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 257}, {Algorithm: "DSA"}} {
		if _, err := wanted.Unsigned(&cmv1.CertificateSpec{PrivateKey: key}); err == nil {
			t.Errorf("%+v is accepted", key)
		}
	}
}

func TestRequestSubject(t *testing.T) {
	spec := full()
	specs["a literal subject"](spec)
	csr, err := certmanager.ParseRequest(request(t, spec, newKey(t, pki.Ed25519)).Request)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, attribute := range csr.Subject.Names {
		got = append(got, attribute.Type.String()+"="+attribute.Value.(string))
	}
	// Within a part, DER has an order of its own.
	want := []string{"0.9.2342.19200300.100.1.25=com", "0.9.2342.19200300.100.1.25=example", "2.5.4.11=IT", "0.9.2342.19200300.100.1.1=7", "2.5.4.3=web, shop"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the subject is not in the reversed order of its text:\n%s", diff)
	}
}

// Issuers that compare extended usages one by one want them in the order of the
// Certificate.
func TestRequestUsages(t *testing.T) {
	csr, err := certmanager.ParseRequest(request(t, &cmv1.CertificateSpec{
		CommonName: "a", Usages: []cmv1.KeyUsage{cmv1.UsageClientAuth, cmv1.UsageServerAuth}, IsCA: true,
	}, newKey(t, pki.ECDSAP256)).Request)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, extension := range csr.Extensions {
		got[extension.Id.String()] = fmt.Sprintf("%x", extension.Value)
	}
	want := map[string]string{
		"2.5.29.15": "03020204",                                     // bit 5: keyCertSign
		"2.5.29.37": "301406082b0601050507030206082b06010505070301", // clientAuth, serverAuth
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRequestSignature(t *testing.T) {
	key := newKey(t, pki.RSA2048)
	csr, err := certmanager.ParseRequest(request(t, &cmv1.CertificateSpec{CommonName: "a", SignatureAlgorithm: cmv1.SHA512WithRSA}, key).Request)
	if err != nil || csr.SignatureAlgorithm != x509.SHA512WithRSA {
		t.Errorf("signed with %v, error %v", csr.SignatureAlgorithm, err)
	}
}

func TestRequestRefuses(t *testing.T) {
	tests := []struct {
		reason string
		spec   cmv1.CertificateSpec
		want   string
	}{
		{"a literal subject of nothing known", cmv1.CertificateSpec{LiteralSubject: "E=a"}, "spec.literalSubject: "},
		{"an address that is none", cmv1.CertificateSpec{IPAddresses: []string{"10.0.0"}}, "spec.ipAddresses: "},
		{"a URI that is none", cmv1.CertificateSpec{URIs: []string{"%"}}, "spec.uris: "},
		{"an other name of no type", cmv1.CertificateSpec{OtherNames: []cmv1.OtherName{{OID: "a"}}}, "spec.otherNames: "},
		{"a usage that does not exist", cmv1.CertificateSpec{Usages: []cmv1.KeyUsage{"a"}}, "spec.usages: "},
		{"a range that is none", cmv1.CertificateSpec{NameConstraints: &cmv1.NameConstraints{Excluded: &cmv1.NameConstraintItem{IPRanges: []string{"a"}}}}, "spec.nameConstraints.excluded: ipRanges: "},
		{"an algorithm that does not exist", cmv1.CertificateSpec{SignatureAlgorithm: "a"}, "spec.signatureAlgorithm: "},
		{"an algorithm for other keys", cmv1.CertificateSpec{SignatureAlgorithm: cmv1.SHA256WithRSA}, "making certificate request"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := wanted.Request(&tc.spec, newKey(t, pki.ECDSAP256)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRequestDifferences(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	tests := []struct {
		reason string
		change func(*cmv1.CertificateSpec)
		want   []string
	}{
		{"a common name", func(s *cmv1.CertificateSpec) { s.CommonName = "b" }, []string{"spec.commonName"}},
		{"organizations", func(s *cmv1.CertificateSpec) { s.Subject.Organizations = nil }, []string{"spec.subject.organizations"}},
		{"the rest of the subject", func(s *cmv1.CertificateSpec) { s.Subject = &cmv1.X509Subject{Organizations: s.Subject.Organizations} }, []string{
			"spec.subject.serialNumber", "spec.subject.organizationalUnits", "spec.subject.countries", "spec.subject.localities",
			"spec.subject.provinces", "spec.subject.streetAddresses", "spec.subject.postalCodes"}},
		{"a literal subject", specs["a literal subject"], []string{"spec.literalSubject"}},
		{"DNS names", func(s *cmv1.CertificateSpec) { s.DNSNames = append(s.DNSNames, "a") }, []string{"spec.dnsNames"}},
		{"addresses", func(s *cmv1.CertificateSpec) { s.IPAddresses = nil }, []string{"spec.ipAddresses"}},
		{"URIs", func(s *cmv1.CertificateSpec) { s.URIs = []string{"spiffe://example.com/x"} }, []string{"spec.uris"}},
		{"e-mail addresses", func(s *cmv1.CertificateSpec) { s.EmailAddresses = nil }, []string{"spec.emailAddresses"}},
		{"the value of an other name", func(s *cmv1.CertificateSpec) { s.OtherNames[0].UTF8Value = "b" }, []string{"spec.otherNames"}},
		{"no other name any more", func(s *cmv1.CertificateSpec) { s.OtherNames = nil }, []string{"spec.otherNames"}},
		{"a CA", func(s *cmv1.CertificateSpec) { s.IsCA = true }, []string{"spec.isCA"}},
		{"usages", func(s *cmv1.CertificateSpec) { s.Usages = nil }, []string{"spec.usages"}},
		{"a duration", func(s *cmv1.CertificateSpec) { s.Duration = &metav1.Duration{Duration: 2 * time.Hour} }, []string{"spec.duration"}},
		{"an issuer's name", func(s *cmv1.CertificateSpec) { s.IssuerRef.Name = "b" }, []string{"spec.issuerRef"}},
		{"an issuer's kind", func(s *cmv1.CertificateSpec) { s.IssuerRef.Kind = "ClusterIssuer" }, []string{"spec.issuerRef"}},

		{"an issuer's kind that is meant anyway", func(s *cmv1.CertificateSpec) { s.IssuerRef.Kind, s.IssuerRef.Group = "Issuer", "cert-manager.io" }, nil},
		{"another order", func(s *cmv1.CertificateSpec) {
			s.DNSNames = []string{"*.example.com", "example.com"}
			s.Subject.Organizations = []string{"Fair", "Shop"}
			s.Usages = []cmv1.KeyUsage{cmv1.UsageSigning, cmv1.UsageClientAuth, cmv1.UsageServerAuth}
		}, nil},
		{"another form of an address", func(s *cmv1.CertificateSpec) { s.IPAddresses = []string{"10.0.0.1", "fd00:0::1"} }, nil},
		{"no duration any more", func(s *cmv1.CertificateSpec) { s.Duration = nil }, nil},
		{"what waits for the next renewal", func(s *cmv1.CertificateSpec) {
			s.NameConstraints, s.SignatureAlgorithm, s.EncodeUsagesInRequest = &cmv1.NameConstraints{}, cmv1.ECDSAWithSHA512, ptr.To(false)
		}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			made, spec := request(t, full(), key), full()
			tc.change(spec)
			got, err := wanted.RequestDifferences(spec, made)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := wanted.RequestDifferences(full(), &cmv1.CertificateRequestSpec{Request: []byte("?")}); err == nil {
		t.Error("a request that nobody can read is fine")
	}
}

// A removed literal subject is detected by attributes that no other field can
// set. The parts of an existing one have an order.
func TestLiteralSubjectDifferences(t *testing.T) {
	literal := func(text string) *cmv1.CertificateSpec { return &cmv1.CertificateSpec{LiteralSubject: text} }
	tests := []struct {
		reason   string
		was, now *cmv1.CertificateSpec
		want     []string
	}{
		{"gone", literal("CN=web,DC=com"), &cmv1.CertificateSpec{CommonName: "web"}, []string{"spec.literalSubject"}},
		{"another order", literal("CN=web,OU=a,OU=b"), literal("CN=web,OU=b,OU=a"), []string{"spec.literalSubject"}},
		{"another order within a part, which has none", literal("CN=web+UID=7"), literal("UID=7+CN=web"), nil},
		{"other spaces", literal("CN=web,O=a"), literal("CN=web, O=a"), nil},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := wanted.RequestDifferences(tc.now, request(t, tc.was, newKey(t, pki.Ed25519)))
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}

func TestCertificateDifferences(t *testing.T) {
	base := pki.AltNames{DNSNames: []string{"a.example", "b.example"}}
	tests := []struct {
		reason     string
		commonName string
		spec       cmv1.CertificateSpec
		want       []string
	}{
		{"the common name that is no DNS name of the certificate", "web", cmv1.CertificateSpec{CommonName: "web", DNSNames: base.DNSNames}, nil},
		{"the same", "a.example", cmv1.CertificateSpec{CommonName: "a.example", DNSNames: []string{"a.example", "b.example"}}, nil},
		{"the common name as a DNS name too", "a.example", cmv1.CertificateSpec{CommonName: "a.example", DNSNames: []string{"b.example"}}, nil},
		{"the common name left out by the issuer", "", cmv1.CertificateSpec{CommonName: "a.example", DNSNames: []string{"b.example"}}, nil},
		{"a common name that the issuer added", "a.example", cmv1.CertificateSpec{DNSNames: []string{"a.example", "b.example"}}, nil},
		{"another common name", "c.example", cmv1.CertificateSpec{CommonName: "d.example", DNSNames: []string{"a.example", "b.example"}}, []string{"spec.commonName", "spec.dnsNames"}},
		{"in other letters", "A.example", cmv1.CertificateSpec{CommonName: "a.EXAMPLE", DNSNames: []string{"a.example", "B.example"}}, nil},
		{"another DNS name", "", cmv1.CertificateSpec{DNSNames: []string{"a.example", "c.example"}}, []string{"spec.dnsNames"}},
		{"an address", "", cmv1.CertificateSpec{DNSNames: base.DNSNames, IPAddresses: []string{"10.0.0.1"}}, []string{"spec.ipAddresses"}},
		{"a literal subject's common name", "a.example", cmv1.CertificateSpec{LiteralSubject: "CN=a.example,O=x", DNSNames: base.DNSNames}, nil},
		{"another organization, which does not count", "a.example", cmv1.CertificateSpec{CommonName: "a.example", DNSNames: base.DNSNames, Subject: &cmv1.X509Subject{Organizations: []string{"x"}}}, nil},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cert := certificate(t, pki.Subject{CommonName: tc.commonName, DNSNames: base.DNSNames})
			if diff := cmp.Diff(tc.want, wanted.CertificateDifferences(&tc.spec, cert)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func certificate(t testing.TB, s pki.Subject) *x509.Certificate {
	t.Helper()
	now := time.Now()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", newKey(t, pki.ECDSAP256), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := root.Issue(pki.UnrecordedSigning, s, newKey(t, pki.ECDSAP256).Public(), pki.ServerUsages(), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func TestKeys(t *testing.T) {
	tests := []struct {
		reason string
		key    *cmv1.CertificatePrivateKey
		block  string
		other  *cmv1.CertificatePrivateKey // differs from key
		want   string
	}{
		{"the default", nil, "RSA PRIVATE KEY", &cmv1.CertificatePrivateKey{Size: 3072}, "spec.privateKey.size"},
		{"RSA of an odd size", &cmv1.CertificatePrivateKey{Algorithm: cmv1.RSAKeyAlgorithm, Size: 2056, Encoding: cmv1.PKCS8}, "PRIVATE KEY", nil, "spec.privateKey.size"},
		{"ECDSA", &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm}, "EC PRIVATE KEY", &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 384}, "spec.privateKey.size"},
		{"ECDSA of 521 bits", &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 521}, "EC PRIVATE KEY", nil, "spec.privateKey.algorithm"},
		{"Ed25519 has one encoding and size", &cmv1.CertificatePrivateKey{Algorithm: cmv1.Ed25519KeyAlgorithm, Encoding: cmv1.PKCS1, Size: 7}, "PRIVATE KEY", &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm}, "spec.privateKey.algorithm"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			spec := &cmv1.CertificateSpec{PrivateKey: tc.key}
			key, err := wanted.NewKey(spec)
			if err != nil {
				t.Fatal(err)
			}
			data, err := wanted.EncodeKey(spec, key)
			if err != nil {
				t.Fatal(err)
			}
			if block, _ := pem.Decode(data); block == nil || block.Type != tc.block {
				t.Errorf("written as %.30q, want %s", data, tc.block)
			}
			if got := wanted.KeyDifferences(spec, key.Public()); got != nil {
				t.Errorf("differs from its own spec in %v", got)
			}
			if got := wanted.KeyDifferences(&cmv1.CertificateSpec{PrivateKey: tc.other}, key.Public()); !cmp.Equal(got, []string{tc.want}) {
				t.Errorf("differs from another spec in %v, want %s", got, tc.want)
			}
		})
	}
	for _, key := range []cmv1.CertificatePrivateKey{{Size: 1024}, {Algorithm: "DSA"}, {Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 255}} {
		if _, err := wanted.NewKey(&cmv1.CertificateSpec{PrivateKey: &key}); err == nil {
			t.Errorf("a key of %v was made", key)
		}
	}
}

// FuzzLiteralSubject: what can be asked for is asked for.
func FuzzLiteralSubject(f *testing.F) {
	for _, seed := range []string{"CN=a", `CN=a\,b+UID=7,DC=x`, "2.5.4.97=a"} {
		f.Add(seed)
	}
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, literal string) {
		spec := &cmv1.CertificateSpec{LiteralSubject: literal, DNSNames: []string{"example.com"}}
		data, err := wanted.Request(spec, key)
		if err != nil {
			return
		}
		if differences, err := wanted.RequestDifferences(spec, &cmv1.CertificateRequestSpec{Request: data}); err != nil || differences != nil {
			t.Errorf("%q differs from itself in %v: %v", literal, differences, err)
		}
	})
}

// A request has each name once: CAs that compare it with an order count them.
func TestNamesOnce(t *testing.T) {
	spec := &cmv1.CertificateSpec{
		DNSNames: []string{"www.shop.example", "www.shop.example", "WWW.shop.example"}, IPAddresses: []string{"fd00::1", "fd00:0::1"},
		URIs: []string{"spiffe://shop/web", "spiffe://shop/web"}, EmailAddresses: []string{"a@shop.example", "a@shop.example"},
	}
	data, err := wanted.Request(spec, newKey(t, pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	csr, err := certmanager.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(csr.DNSNames) != 1 || len(csr.IPAddresses) != 1 || len(csr.URIs) != 1 || len(csr.EmailAddresses) != 1 || csr.DNSNames[0] != "www.shop.example" {
		t.Errorf("the request has %q, %v, %v and %q", csr.DNSNames, csr.IPAddresses, csr.URIs, csr.EmailAddresses)
	}
}
