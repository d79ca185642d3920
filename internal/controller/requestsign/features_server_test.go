package requestsign_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// feature is something that a request can ask for.
type feature struct {
	subject pki.Subject
	key     string // of keys; empty: ecdsa
	usages  []string
	isCA    bool
	life    time.Duration // zero: the default
}

// features returns what cert-manager's conformance tests require of each
// issuer.
func features(t *testing.T) map[string]feature {
	t.Helper()
	uri, err := url.Parse("spiffe://cluster.local/ns/sandbox/sa/foo")
	if err != nil {
		t.Fatal(err)
	}
	ip := []net.IP{net.ParseIP("10.0.0.1").To4(), net.ParseIP("2001:db8::1")}
	long := strings.Repeat("x", 63) + ".example.com"
	return map[string]feature{
		"dns":              {subject: pki.Subject{DNSNames: []string{"web.example.com"}}},
		"rsa":              {subject: pki.Subject{CommonName: "web"}, key: "rsa"},
		"ed25519":          {subject: pki.Subject{CommonName: "web"}, key: "ed25519"},
		"ip":               {subject: pki.Subject{IPAddresses: ip}},
		"dns-ip":           {subject: pki.Subject{DNSNames: []string{"web.example.com"}, IPAddresses: ip}},
		"cn-ip":            {subject: pki.Subject{CommonName: "web", IPAddresses: ip}},
		"email":            {subject: pki.Subject{EmailAddresses: []string{"alice@example.com"}}},
		"uri":              {subject: pki.Subject{URIs: []*url.URL{uri}}},
		"cn-uri":           {subject: pki.Subject{CommonName: "web", URIs: []*url.URL{uri}}},
		"two-one-cn":       {subject: pki.Subject{CommonName: "a.example.com", DNSNames: []string{"a.example.com", "b.example.com"}}},
		"distinct-cn":      {subject: pki.Subject{CommonName: "c.example.com", DNSNames: []string{"d.example.com"}}},
		"wildcard-apex":    {subject: pki.Subject{DNSNames: []string{"*.example.com", "example.com"}}},
		"long-domain":      {subject: pki.Subject{DNSNames: []string{long}}},
		"duration":         {subject: pki.Subject{CommonName: "web"}, life: 896 * time.Hour},
		"ca":               {subject: pki.Subject{CommonName: "web"}, isCA: true, usages: []string{"cert sign"}},
		"ca-long":          {subject: pki.Subject{CommonName: "web"}, isCA: true, usages: []string{"cert sign", "signing"}, life: 10000 * time.Hour},
		"usages":           {subject: pki.Subject{CommonName: "web"}, usages: []string{"signing", "data encipherment", "server auth", "client auth"}},
		"key-encipherment": {subject: pki.Subject{CommonName: "web"}, usages: []string{"key encipherment"}},
	}
}

// look is what a certificate shows of a feature.
type look struct {
	CommonName string
	DNS, Email []string
	IP, URI    []string
	KeyUsage   x509.KeyUsage
	ExtUsage   []x509.ExtKeyUsage
	IsCA       bool
	Life       time.Duration
}

func (f feature) want() look {
	l := look{CommonName: f.subject.CommonName, DNS: f.subject.DNSNames, Email: f.subject.EmailAddresses, IsCA: f.isCA, Life: f.life}
	for _, ip := range f.subject.IPAddresses {
		l.IP = append(l.IP, ip.String())
	}
	for _, uri := range f.subject.URIs {
		l.URI = append(l.URI, uri.String())
	}
	for _, usage := range f.usages {
		switch usage {
		case "signing":
			l.KeyUsage |= x509.KeyUsageDigitalSignature
		case "data encipherment":
			l.KeyUsage |= x509.KeyUsageDataEncipherment
		case "key encipherment":
			l.KeyUsage |= x509.KeyUsageKeyEncipherment
		case "cert sign":
			l.KeyUsage |= x509.KeyUsageCertSign
		case "server auth":
			l.ExtUsage = append(l.ExtUsage, x509.ExtKeyUsageServerAuth)
		case "client auth":
			l.ExtUsage = append(l.ExtUsage, x509.ExtKeyUsageClientAuth)
		}
	}
	if len(f.usages) == 0 {
		l.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	}
	if l.Life == 0 {
		l.Life = 90 * 24 * time.Hour
	}
	return l
}

func lookOf(cert *x509.Certificate) look {
	l := look{
		CommonName: cert.Subject.CommonName, DNS: cert.DNSNames, Email: cert.EmailAddresses, IsCA: cert.IsCA,
		KeyUsage: cert.KeyUsage, ExtUsage: cert.ExtKeyUsage, Life: cert.NotAfter.Sub(cert.NotBefore),
	}
	for _, ip := range cert.IPAddresses {
		l.IP = append(l.IP, ip.String())
	}
	for _, uri := range cert.URIs {
		l.URI = append(l.URI, uri.String())
	}
	return l
}

// A certificate has what was requested, through either API, and also the
// addresses of the issuer.
func TestFeatures(t *testing.T) {
	w := start(t)
	all := keys(t)
	issuer := withCA("ca")
	issuer.CA.CRLDistributionPoints, issuer.CA.OCSPServers, issuer.CA.IssuingCertificateURLs =
		[]string{"http://crl.example.com/ca.crl"}, []string{"http://ocsp.example.com"}, []string{"http://ca.example.com/ca.crt"}
	w.create(t, longCA(t, "cert-manager", "ca", all["ecdsa"]), &cmv1.ClusterIssuer{ObjectMeta: meta("", "ca"), Spec: issuer})
	check := func(t *testing.T, how string, f feature, cert *x509.Certificate) {
		t.Helper()
		if diff := cmp.Diff(f.want(), lookOf(cert)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", how, diff)
		}
		if cert.CRLDistributionPoints[0] != issuer.CA.CRLDistributionPoints[0] || cert.OCSPServer[0] != issuer.CA.OCSPServers[0] ||
			cert.IssuingCertificateURL[0] != issuer.CA.IssuingCertificateURLs[0] {
			t.Errorf("%s: addresses %v, %v, %v", how, cert.CRLDistributionPoints, cert.OCSPServer, cert.IssuingCertificateURL)
		}
	}
	each := func(t *testing.T, suffix string) {
		for name, f := range features(t) {
			t.Run(name+suffix, func(t *testing.T) {
				key, name := all["ecdsa"], name+suffix
				if f.key != "" {
					key = all[f.key]
				}
				w.create(t, f.request(t, name, key))
				issued := w.becomes(t, name, cmv1.CertificateRequestReasonIssued)
				check(t, "CertificateRequest", f, verified(t, issued, key))
				if c := api.RequestCondition(issued, cmv1.CertificateRequestConditionApproved); c.Reason != "cert-manager.io" || c.Message != "Certificate request has been approved by cert-manager.io" {
					t.Errorf("approved with %+v", c)
				}
				check(t, "CertificateSigningRequest", f, w.signed(t, f.csr(t, name, key)))
			})
		}
	}
	each(t, "")
	w.governOthers(t)
	each(t, "-beside-policies")
	t.Run("expirationSeconds", func(t *testing.T) {
		c := feature{subject: pki.Subject{CommonName: "web"}}.csr(t, "seconds", all["ecdsa"])
		c.Spec.ExpirationSeconds = ptr.To[int32](3333)
		if cert := w.signed(t, c); lookOf(cert).Life != 3333*time.Second {
			t.Errorf("lives %v", lookOf(cert).Life)
		}
	})
	t.Run("to the byte", func(t *testing.T) { w.testVerbatim(t, all["ecdsa"]) })
}

// What x509 has no field for is copied into the certificate as it is in the
// request: a subject in its own order, names of other types.
func (w world) testVerbatim(t *testing.T, key crypto.Signer) {
	encoded, err := wanted.Request(&cmv1.CertificateSpec{
		LiteralSubject: "CN=web,OU=shop,DC=example,DC=com",
		OtherNames:     []cmv1.OtherName{{OID: "1.3.6.1.4.1.311.20.2.3", UTF8Value: "alice@example.com"}},
		EmailAddresses: []string{"alice@example.com"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := pki.ParseRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	check := func(how string, cert *x509.Certificate) {
		t.Helper()
		if !bytes.Equal(cert.RawSubject, asked.RawSubject) {
			t.Errorf("%s: the subject is %s, not %s", how, cert.Subject, asked.Subject)
		}
		if want, got := alternativeNames(t, asked.Extensions), alternativeNames(t, cert.Extensions); !bytes.Equal(want, got) {
			t.Errorf("%s: the alternative names are %x, not %x", how, got, want)
		}
	}
	cr := feature{}.request(t, "verbatim", key)
	cr.Spec.Request = encoded
	w.create(t, cr)
	check("CertificateRequest", verified(t, w.becomes(t, "verbatim", cmv1.CertificateRequestReasonIssued), key))
	c := feature{}.csr(t, "verbatim", key)
	c.Spec.Request = encoded
	check("CertificateSigningRequest", w.signed(t, c))
}

// alternativeNames returns the value of the extension (RFC 5280 section 4.2.1.6).
func alternativeNames(t *testing.T, extensions []pkix.Extension) []byte {
	t.Helper()
	i := slices.IndexFunc(extensions, func(e pkix.Extension) bool { return e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) })
	if i < 0 {
		t.Fatal("there are no alternative names")
	}
	return extensions[i].Value
}

func (f feature) request(t *testing.T, name string, key crypto.Signer) *cmv1.CertificateRequest {
	t.Helper()
	cr := request(t, name, cmmeta.IssuerReference{Name: "ca", Kind: cmv1.ClusterIssuerKind}, key)
	var err error
	if cr.Spec.Request, err = pki.NewRequest(f.subject, key); err != nil {
		t.Fatal(err)
	}
	cr.Spec.IsCA = f.isCA
	for _, usage := range f.usages {
		cr.Spec.Usages = append(cr.Spec.Usages, cmv1.KeyUsage(usage))
	}
	if f.life != 0 {
		cr.Spec.Duration = &metav1.Duration{Duration: f.life}
	}
	return cr
}

func (f feature) csr(t *testing.T, name string, key crypto.Signer) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	c := apitest.NewCSR(t, name, "clusterissuers.cert-manager.io/ca", f.subject, key)
	c.Annotations = map[string]string{}
	if c.Spec.Usages = []certificatesv1.KeyUsage{"digital signature", "key encipherment"}; len(f.usages) > 0 {
		c.Spec.Usages = nil
	}
	for _, usage := range f.usages {
		c.Spec.Usages = append(c.Spec.Usages, certificatesv1.KeyUsage(usage))
	}
	if f.isCA {
		c.Annotations["experimental.cert-manager.io/request-is-ca"] = "true"
	}
	if f.life != 0 {
		c.Annotations["experimental.cert-manager.io/request-duration"] = f.life.String()
	}
	return c
}

// signed sends a CertificateSigningRequest, approves it and returns its
// certificate.
func (w world) signed(t *testing.T, c *certificatesv1.CertificateSigningRequest) *x509.Certificate {
	t.Helper()
	admin := apitest.Client(t, w.Admin(t))
	approved := apitest.Decide(t, admin, apitest.Create(t, admin, c), certificatesv1.CertificateApproved)
	certs, err := pki.ParseCertificates(apitest.Issued(t, admin, approved))
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}
