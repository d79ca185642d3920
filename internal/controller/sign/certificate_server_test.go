package sign_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
)

var (
	oidCommonName      = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization    = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidDomainComponent = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	oidBasicConstraint = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidExtKeyUsage     = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// unusualSubject returns a name in an order and an encoding that no library
// would produce.
func unusualSubject(t *testing.T) []byte {
	t.Helper()
	attribute := func(oid asn1.ObjectIdentifier, value string, tag int) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: oid, Value: asn1.RawValue{Tag: tag, Bytes: []byte(value)}}
	}
	name := []pkix.RelativeDistinguishedNameSET{
		{attribute(oidCommonName, "dora", asn1.TagUTF8String)},
		{attribute(oidOrganization, "zoo", asn1.TagPrintableString)},
		{attribute(oidDomainComponent, "example", asn1.TagIA5String)},
		{attribute(oidOrganization, "ark", asn1.TagUTF8String)},
	}
	der, err := asn1.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// greedyRequest requests more than a client certificate gets.
func greedyRequest(t *testing.T, key crypto.Signer) *x509.CertificateRequest {
	t.Helper()
	uri := &url.URL{Scheme: "spiffe", Host: "example.com", Path: "/dora"}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		RawSubject:     unusualSubject(t),
		DNSNames:       []string{"dora.example.com", "*.example.com"},
		EmailAddresses: []string{"dora@example.com"},
		IPAddresses:    []net.IP{net.IPv4(192, 0, 2, 1).To4(), net.ParseIP("2001:db8::1")},
		URIs:           []*url.URL{uri},
		ExtraExtensions: []pkix.Extension{
			{Id: oidBasicConstraint, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}},                       // CA: true
			{Id: oidExtKeyUsage, Value: []byte{0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01}}, // serverAuth
		},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// facts are what a relying party reads from a certificate.
type facts struct {
	Subject    []byte
	DNS, Email []string
	IP         []string
	URI        []string
	KeyUsage   x509.KeyUsage
	Extended   []x509.ExtKeyUsage
	IsCA       bool
	Authority  []byte
}

func factsOf(cert *x509.Certificate) facts {
	f := facts{
		Subject: cert.RawSubject, DNS: cert.DNSNames, Email: cert.EmailAddresses, KeyUsage: cert.KeyUsage, Extended: cert.ExtKeyUsage,
		IsCA: cert.IsCA || !cert.BasicConstraintsValid, Authority: cert.AuthorityKeyId,
	}
	for _, ip := range cert.IPAddresses {
		f.IP = append(f.IP, ip.String())
	}
	for _, uri := range cert.URIs {
		f.URI = append(f.URI, uri.String())
	}
	return f
}

// testCertificate checks that names come from the request, usages from the
// approved object, and the rest from the signer.
func (w world) testCertificate(t *testing.T) {
	key := apitest.NewKey(t)
	request := greedyRequest(t, key)
	asked := &csr{Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request.Raw}),
		SignerName: signerName,
		Usages:     []certificatesv1.KeyUsage{"digital signature", "key encipherment", "client auth"},
	}}
	asked.GenerateName = "certificate-"
	before := time.Now()
	cert := w.issue(t, asked)
	ca := w.ClientCA(t).Certificate()

	want := facts{
		Subject: request.RawSubject, DNS: request.DNSNames, Email: request.EmailAddresses,
		IP: []string{"192.0.2.1", "2001:db8::1"}, URI: []string{"spiffe://example.com/dora"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Authority: ca.SubjectKeyId,
	}
	if diff := cmp.Diff(want, factsOf(cert)); diff != "" {
		t.Errorf("certificate (-want +got):\n%s", diff)
	}
	if len(cert.UnhandledCriticalExtensions) != 0 || cert.SerialNumber.Sign() <= 0 || cert.SerialNumber.BitLen() < 64 {
		t.Errorf("critical extensions %v, serial number %x", cert.UnhandledCriticalExtensions, cert.SerialNumber)
	}
	if public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(cert.PublicKey) {
		t.Error("the certificate is for another key")
	}
	roots, chain := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(w.ClientRoot(t))
	chain.AddCert(ca)
	for _, moment := range []time.Time{before, time.Now()} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain, CurrentTime: moment, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("verifying: %v", err)
		}
	}
	if bytes.Equal(cert.RawSubject, ca.RawSubject) {
		t.Error("the certificate has the CA's name")
	}
}
