package crp_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
)

// keys are made once: RSA keys take long.
var keys = map[string]func() crypto.Signer{
	"RSA":     sync.OnceValue(func() crypto.Signer { return must(rsa.GenerateKey(rand.Reader, 2048)) }),
	"P-256":   sync.OnceValue(func() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }),
	"P-384":   sync.OnceValue(func() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) }),
	"Ed25519": sync.OnceValue(func() crypto.Signer { _, key, err := ed25519.GenerateKey(rand.Reader); return must(key, err) }),
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// asks is what a request asks for.
type asks struct {
	dns, emails, organizations []string
	ips                        []net.IP
	uris                       []string
	// subject is used instead of organizations.
	subject pkix.RDNSequence
	// names is the value of the subjectAltName extension, instead of the lists.
	names    []byte
	key      string
	pem      []byte
	isCA     bool
	usages   []cmv1.KeyUsage
	duration time.Duration
	issuer   cmmeta.IssuerReference
	username string
	groups   []string
}

func (a asks) request(t testing.TB) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop"},
		Spec: cmv1.CertificateRequestSpec{
			Request: a.pem, IsCA: a.isCA, Usages: a.usages, IssuerRef: a.issuer, Username: a.username, Groups: a.groups,
		},
	}
	if a.duration != 0 {
		cr.Spec.Duration = &metav1.Duration{Duration: a.duration}
	}
	if a.pem == nil {
		cr.Spec.Request = a.encode(t)
	}
	return cr
}

func (a asks) encode(t testing.TB) []byte {
	t.Helper()
	template := &x509.CertificateRequest{
		Subject: pkix.Name{Organization: a.organizations}, DNSNames: a.dns, EmailAddresses: a.emails, IPAddresses: a.ips,
	}
	for _, text := range a.uris {
		template.URIs = append(template.URIs, must(url.Parse(text)))
	}
	if a.subject != nil {
		template.RawSubject = must(asn1.Marshal(a.subject))
	}
	if a.names != nil {
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: a.names}}
	}
	if a.key == "" {
		a.key = "P-256"
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, keys[a.key]())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// subject returns a subject with an attribute for each pair of object identifier
// and value.
func subject(pairs ...any) pkix.RDNSequence {
	var sequence pkix.RDNSequence
	for i := 0; i < len(pairs); i += 2 {
		sequence = append(sequence, pkix.RelativeDistinguishedNameSET{{Type: pairs[i].(asn1.ObjectIdentifier), Value: pairs[i+1]}})
	}
	return sequence
}

var (
	commonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	serialNumber = asn1.ObjectIdentifier{2, 5, 4, 5}
	emailAddress = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	upn          = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}
)

// generalNames returns the value of a subjectAltName extension.
func generalNames(names ...asn1.RawValue) []byte { return must(asn1.Marshal(names)) }

// name returns a GeneralName.
func name(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: content}
}

func constructed(name asn1.RawValue) asn1.RawValue {
	name.IsCompound = true
	return name
}

func otherName(oid asn1.ObjectIdentifier, value any, params string) asn1.RawValue {
	inner := must(asn1.MarshalWithParams(value, params))
	wrapped := must(asn1.Marshal(constructed(name(0, inner))))
	return constructed(name(0, append(must(asn1.Marshal(oid)), wrapped...)))
}

// object returns a policy that is ready, from the YAML of its spec.
func object(t testing.TB, name, spec string) *approverpolicy.CertificateRequestPolicy {
	t.Helper()
	policy := &approverpolicy.CertificateRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: ready(metav1.ConditionTrue)}
	if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
		t.Fatalf("%v in %s", err, spec)
	}
	return policy
}

func ready(status metav1.ConditionStatus) approverpolicy.Status {
	return approverpolicy.Status{Conditions: []metav1.Condition{{Type: "Ready", Status: status}}}
}

// policy returns a compiled policy, which can have errors.
func policy(t testing.TB, name, spec string) *crp.Policy {
	t.Helper()
	compiled, _ := crp.Compile(object(t, name, spec))
	return compiled
}

// everybody are facts that make no difference.
var everybody = crp.Facts{
	NamespaceLabels: func() (map[string]string, error) { return nil, nil },
	MayUse:          func(string) (bool, error) { return true, nil },
}
