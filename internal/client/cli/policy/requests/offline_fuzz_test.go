package requests_test

import (
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/requests"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// decidedOffline are policies that look at everything that a file can get wrong.
const decidedOffline = `
effect: Allow
match:
  signers: ["*"]
  requesters: {users: ["*"]}
certificate:
  subject: {commonName: {patterns: ["{user}", "web-*"]}, organizations: {max: 1}}
  names: {max: 3, dns: {zones: [example.com]}, ip: {cidrs: [10.0.0.0/8]}, uri: {patterns: ["spiffe://example.com/ns/{namespace}/*"]}, email: {domains: [example.com]}}
  keys: {types: [ECDSAP256, ED25519]}
  usages: {allowed: [digital signature, server auth, client auth]}
  lifetime: {max: 24h}
rules:
- {name: labels, expression: "!('team' in request.labels) || request.labels['team'] != ''"}
- {name: annotations, expression: "request.metadataAnnotations.size() < 3"}
`

// FuzzOffline: a request that is read from a file, as the commands read it, is decided
// about as the one that the API has, of whatever kind it is.
func FuzzOffline(f *testing.F) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		f.Fatal(err)
	}
	for _, subject := range []pki.Subject{{CommonName: "alice", DNSNames: []string{"www.example.com"}}, {Organizations: []string{"a", "b"}}, {DNSNames: []string{"www.example.org"}}} {
		csr, err := pki.NewRequest(subject, key)
		if err != nil {
			f.Fatal(err)
		}
		parsed, err := pki.ParseRequest(csr)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(parsed.Raw, "alice", "server auth", int32(3600), "team", false)
	}
	f.Add([]byte{0x30, 0}, "system:serviceaccount:shop:web", "any\n", int32(-1), "yes", true)
	f.Add([]byte("x"), "a: b\n#", "signing", int32(0), "~", false)
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	if err := yaml.UnmarshalStrict([]byte(decidedOffline), &p.Spec); err != nil {
		f.Fatal(err)
	}
	set := certpolicy.NewSet([]*v1alpha1.CertificatePolicy{p}, nil)
	f.Fuzz(func(t *testing.T, der []byte, user, usage string, seconds int32, label string, isCA bool) {
		if user == "" || usage == "" || !printed(user) || !printed(usage) || !printed(label) {
			return // the API does not store them
		}
		meta := metav1.ObjectMeta{Namespace: "shop", Name: "r", Labels: map[string]string{"team": label}, Annotations: map[string]string{label: usage}}
		pem := pki.EncodeRequest(&x509.CertificateRequest{Raw: der})
		csr := &certificatesv1.CertificateSigningRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}, ObjectMeta: meta,
			Spec: certificatesv1.CertificateSigningRequestSpec{Request: pem, SignerName: "example.com/web", Username: user, Groups: []string{label},
				ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{certificatesv1.KeyUsage(usage), "digital signature"}},
		}
		csr.Namespace = ""
		cr := &cmv1.CertificateRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"}, ObjectMeta: meta,
			Spec: cmv1.CertificateRequestSpec{Request: pem, IssuerRef: cmmeta.IssuerReference{Name: "own"}, Username: user, IsCA: isCA,
				Duration: &metav1.Duration{Duration: time.Duration(seconds) * time.Second}, Usages: []cmv1.KeyUsage{cmv1.KeyUsage(usage)}},
		}
		pcr := &certificatesv1beta1.PodCertificateRequest{
			TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1beta1", Kind: "PodCertificateRequest"}, ObjectMeta: meta,
			Spec: certificatesv1beta1.PodCertificateRequestSpec{StubPKCS10Request: der, SignerName: "example.com/web", ServiceAccountName: "web",
				MaxExpirationSeconds: &seconds, UnverifiedUserAnnotations: map[string]string{label: user}},
		}
		for _, one := range []struct {
			object client.Object
			stored request.Request
		}{{csr, request.FromCSR(csr)}, {cr, request.FromCertificateRequest(cr)}, {pcr, request.FromPodRequest(pcr)}} {
			object, stored := one.object, one.stored
			data, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			asked, err := (&requests.Options{}).Read("request.yaml", data)
			if err != nil || len(asked) != 1 {
				t.Fatalf("reading %s: %v", data, err)
			}
			online, offline := decided(t, set, stored), decided(t, set, asked[0].Request)
			if online != offline {
				t.Errorf("%T: the API decides\n%s, and a file\n%s", object, online, offline)
			}
		}
	})
}

func decided(t *testing.T, set *certpolicy.Set, r request.Request) string {
	t.Helper()
	direct := v1alpha1.OriginDirect
	d := set.Decide(certpolicy.Input{
		Stage: v1alpha1.StageCheck, Request: r, Time: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
		Facts: certpolicy.Facts{Origin: certpolicy.Known(&direct)},
	})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// printed reports whether YAML keeps a text as it is: it has no other characters than
// printed ones and ends of lines.
func printed(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) })
}
