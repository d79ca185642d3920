package request_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

func newPEM(t testing.TB, name string) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFromCSR(t *testing.T) {
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"n": "2"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: newPEM(t, "alice"), SignerName: "issuers.cert-manager.io/shop.ca", Usages: []certificatesv1.KeyUsage{"any"},
			ExpirationSeconds: new(int32(600)), Username: "ann", Extra: map[string]certificatesv1.ExtraValue{"k": {"v"}},
		},
	}
	got := request.FromCSR(csr)
	if got.Kind != "CertificateSigningRequest" || got.Name != "a" || got.UID != "u" || got.Labels["l"] != "1" || got.ObjectAnnotations["n"] != "2" ||
		got.Annotations != nil || *got.Duration != 10*time.Minute || !slices.Equal(got.Usages, []string{"any"}) {
		t.Errorf("%+v", got)
	}
	if got.Issuer == nil || got.Issuer.Group != "cert-manager.io" || got.Issuer.Namespace != "shop" || got.Issuer.Name != "ca" {
		t.Errorf("issuer %+v", got.Issuer)
	}
	if diff := cmp.Diff(request.Requester{Username: "ann", Extra: map[string][]string{"k": {"v"}}}, got.Requester); diff != "" {
		t.Error(diff)
	}
	if got.PKCS10 == nil || got.PKCS10.Subject.CommonName != "alice" || !pki.SameKey(got.Key, got.PKCS10.PublicKey) {
		t.Errorf("request %+v", got.PKCS10)
	}
	csr.Spec.ExpirationSeconds, csr.Spec.Request, csr.Spec.SignerName = nil, []byte("x"), "example.com/a"
	got = request.FromCSR(csr)
	if _, err := got.Parsed(); err == nil || got.Duration != nil || got.PKCS10 != nil || got.Key != nil || got.Issuer != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAsksForCA(t *testing.T) {
	extended := func(id asn1.ObjectIdentifier, value ...byte) *pki.Request {
		return pki.ReadRequest(&x509.CertificateRequest{Extensions: []pkix.Extension{{Id: id, Value: value}}})
	}
	tests := []struct {
		reason  string
		request request.Request
		want    bool
	}{
		{"nothing", request.Request{}, false},
		{"isCA", request.Request{IsCA: true}, true},
		{"annotation", request.Request{ObjectAnnotations: map[string]string{request.AnnotationIsCA: "true"}}, true},
		{"annotation that says no", request.Request{ObjectAnnotations: map[string]string{request.AnnotationIsCA: "false"}}, false},
		{"usage cert sign", request.Request{Usages: []string{"digital signature", "cert sign"}}, true},
		{"usage crl sign", request.Request{Usages: []string{"crl sign"}}, true},
		{"other usages", request.Request{Usages: []string{"signing", "code signing", "ocsp signing"}}, false},
		{"basic constraints", request.Request{PKCS10: extended(pki.OIDBasicConstraints, 0x30, 3, 1, 1, 0xff)}, true},
		{"basic constraints of an end entity", request.Request{PKCS10: extended(pki.OIDBasicConstraints, 0x30, 0)}, false},
		{"malformed basic constraints", request.Request{PKCS10: extended(pki.OIDBasicConstraints, 0x30)}, true},
		{"key usage keyCertSign", request.Request{PKCS10: extended(pki.OIDKeyUsage, 3, 2, 2, 0x04)}, true},
		{"key usage cRLSign", request.Request{PKCS10: extended(pki.OIDKeyUsage, 3, 2, 1, 0x02)}, true},
		{"key usage digitalSignature", request.Request{PKCS10: extended(pki.OIDKeyUsage, 3, 2, 7, 0x80)}, false},
	}
	for _, tc := range tests {
		if got := tc.request.AsksForCA(); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

func TestFromCertificateRequest(t *testing.T) {
	tests := []struct {
		reason string
		ref    cmmeta.IssuerReference
		signer string
		issuer string
	}{
		{"nothing but a name", cmmeta.IssuerReference{Name: "ca"}, "issuers.cert-manager.io/shop.ca", "cert-manager.io Issuer shop/ca"},
		{"for all namespaces", cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}, "clusterissuers.cert-manager.io/ca", "cert-manager.io ClusterIssuer /ca"},
		{"of others", cmmeta.IssuerReference{Name: "ca", Kind: "Step", Group: "example.com"}, "", "example.com Step shop/ca"},
	}
	for _, tc := range tests {
		got := request.FromCertificateRequest(&cmv1.CertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop"},
			Spec:       cmv1.CertificateRequestSpec{Request: newPEM(t, "alice"), IssuerRef: tc.ref, IsCA: true, Duration: &metav1.Duration{Duration: time.Hour}},
		})
		who := got.Issuer.Group + " " + got.Issuer.Kind + " " + got.Issuer.Namespace + "/" + got.Issuer.Name
		if got.SignerName != tc.signer || who != tc.issuer || got.Kind != request.CertificateRequests || !got.IsCA || *got.Duration != time.Hour || got.PKCS10 == nil {
			t.Errorf("%s: %+v of %s", tc.reason, got, who)
		}
		if !slices.Equal(got.Usages, []string{"digital signature", "key encipherment"}) {
			t.Errorf("%s: usages %q", tc.reason, got.Usages)
		}
	}
}

func TestFromPodRequest(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason     string
		stub, bare []byte
		pkcs10     bool
		unreadable string
	}{
		{reason: "a stub", stub: stub, pkcs10: true},
		{reason: "the form of Kubernetes 1.35", bare: bare},
		{reason: "a stub that is none", stub: []byte("x"), unreadable: "parsing spec.stubPKCS10Request"},
		{reason: "nothing", unreadable: "parsing spec.pkixPublicKey"},
	}
	for _, tc := range tests {
		got := request.FromPodRequest(&certificatesv1beta1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "shop", Annotations: map[string]string{"n": "2"}},
			Spec: certificatesv1beta1.PodCertificateRequestSpec{
				//lint:ignore SA1019 kubelets of Kubernetes 1.35 have no other form
				ServiceAccountName: "web", ServiceAccountUID: "s1", StubPKCS10Request: tc.stub, PKIXPublicKey: tc.bare,
				UnverifiedUserAnnotations: map[string]string{"role": "db"},
			},
		})
		if (got.PKCS10 != nil) != tc.pkcs10 || tc.unreadable == "" && !pki.SameKey(got.Key, key.Public()) {
			t.Errorf("%s: %+v", tc.reason, got)
		}
		if (got.Unreadable != nil) != (tc.unreadable != "") || got.Unreadable != nil && !strings.Contains(got.Unreadable.Error(), tc.unreadable) {
			t.Errorf("%s: %v", tc.reason, got.Unreadable)
		}
		if got.Requester.Username != "system:serviceaccount:shop:web" || got.Requester.UID != "s1" || got.Annotations["role"] != "db" || got.ObjectAnnotations["n"] != "2" {
			t.Errorf("%s: %+v", tc.reason, got.Requester)
		}
	}
}

func TestTerms(t *testing.T) {
	csr := func(usage certificatesv1.KeyUsage, seconds int32, annotations ...string) request.Request {
		c := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Usages: []certificatesv1.KeyUsage{usage}, ExpirationSeconds: &seconds,
		}}
		c.Annotations = map[string]string{}
		for i := 0; i < len(annotations); i += 2 {
			c.Annotations[annotations[i]] = annotations[i+1]
		}
		return request.FromCSR(c)
	}
	ca := request.FromCertificateRequest(&cmv1.CertificateRequest{Spec: cmv1.CertificateRequestSpec{
		IsCA: true, Duration: &metav1.Duration{Duration: time.Second},
	}})
	tests := []struct {
		reason  string
		req     request.Request
		isCA    bool
		life    time.Duration
		refused string
	}{
		{reason: "as the spec says", req: csr("server auth", 600), life: 10 * time.Minute},
		{reason: "the annotation counts more", req: csr("server auth", 600, request.AnnotationDuration, "2h"), life: 2 * time.Hour},
		{reason: "too short a life", req: csr("server auth", 599), refused: "InvalidDuration: the duration 9m59s is shorter than 10m0s"},
		{reason: "too short a life in the annotation", req: csr("server auth", 600, request.AnnotationDuration, "1m"), refused: "InvalidDuration: the duration 1m0s is shorter than 10m0s"},
		{reason: "a duration that is none", req: csr("server auth", 600, request.AnnotationDuration, "1 day"),
			refused: `ErrorParseDuration: annotation experimental.cert-manager.io/request-duration: time: unknown unit " day" in duration "1 day"`},
		{reason: "a CA", req: csr("cert sign", 600, request.AnnotationIsCA, "true"), isCA: true, life: 10 * time.Minute},
		{reason: "no CA but in another word", req: csr("cert sign", 600, request.AnnotationIsCA, "True"), life: 10 * time.Minute},
		{reason: "an unknown usage", req: csr("magic", 600), refused: `InvalidRequest: spec.usages: unrecognized usage values: ["magic"]`},
		{reason: "CertificateRequests may be short", req: ca, isCA: true, life: time.Second},
	}
	for _, tc := range tests {
		terms, err := tc.req.Terms()
		var refused *request.TermsError
		if errors.As(err, &refused) {
			if got := refused.Reason + ": " + err.Error(); got != tc.refused {
				t.Errorf("%s: %s", tc.reason, got)
			}
			continue
		}
		if tc.refused != "" || err != nil || terms.IsCA != tc.isCA || *terms.Duration != tc.life {
			t.Errorf("%s: %+v, %v", tc.reason, terms, err)
		}
	}
	if terms, err := ca.Terms(); err != nil || terms.Usages.Key&x509.KeyUsageCertSign == 0 {
		t.Errorf("a CA that may not sign certificates: %+v, %v", terms, err)
	}
}
