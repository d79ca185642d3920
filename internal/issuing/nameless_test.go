package issuing_test

import (
	"crypto/x509"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// A CA that has DNS names and no subject is issued, signs, and is warned of:
// cert-manager makes such CAs.
func TestNamelessCA(t *testing.T) {
	c := newChain(t)
	key := newKey(t, pki.ECDSAP256)
	data, err := pki.NewRequest(pki.Subject{DNSNames: []string{"ca.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	nameless := newRequest(t, key, func(cr *cmv1.CertificateRequest) {
		asCA(cr)
		cr.Spec.Request = data
	})
	below, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, nameless, &cmv1.CAIssuer{}, c.root, now)
	if err != nil || len(below.Warnings) > 0 {
		t.Fatalf("below a root: %v, %+v", err, below)
	}
	alone, err := selfsigned.Sign(t.Context(), pki.Unrecorded, nameless, &cmv1.SelfSignedIssuer{}, selfsigned.KeySecret{Name: "key", Secret: tlsSecret(t, key, nil)}, now)
	if err != nil || len(alone.Warnings) != 1 {
		t.Fatalf("self-signed: %v, %+v", err, alone)
	}
	for reason, s := range map[string]*corev1.Secret{
		"below a root": tlsSecret(t, key, c.root.Certificate(), below.Certificate), "self-signed": tlsSecret(t, key, alone.Certificate, alone.Certificate),
	} {
		authority, err := ca.Open("ns/ca", s)
		if err != nil {
			t.Errorf("%s: %v", reason, err)
			continue
		}
		leaf, err := ca.Sign(t.Context(), issuing.Config{Issuing: pki.Unrecorded}, newRequest(t, newKey(t, pki.ECDSAP256), nil), &cmv1.CAIssuer{}, authority, now)
		if err != nil || len(leaf.Warnings) != 1 || leaf.Warnings[0].Reason != issuing.WarningBadConfig {
			t.Errorf("%s signs: %v, %+v", reason, err, leaf)
			continue
		}
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		roots.AppendCertsFromPEM(leaf.CA)
		between.AppendCertsFromPEM(leaf.PEM)
		if _, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// With cert-manager's rule a certificate lives for as long as it asks, whatever
// becomes of its CA; a CA that has ended signs nothing all the same.
func TestOutliveCA(t *testing.T) {
	c := newChain(t)
	cfg := issuing.Config{Rules: issuing.Rules{OutliveCA: true}, Issuing: pki.Unrecorded}
	req := newRequest(t, newKey(t, pki.ECDSAP256), lasting(500*day))
	issued, err := ca.Sign(t.Context(), cfg, req, &cmv1.CAIssuer{}, c.root, now)
	if err != nil || issued.ShortenedBy != 0 || len(issued.Warnings) != 0 || issued.Certificate.NotAfter.Sub(issued.Certificate.NotBefore) != 500*day {
		t.Errorf("%+v, %v", issued, err)
	}
	if _, err := ca.Sign(t.Context(), cfg, req, &cmv1.CAIssuer{}, c.root, now.Add(401*day)); err == nil {
		t.Error("a CA that has ended signs")
	}
}

// The annotation alone asks for a CA, with or without the usage.
func TestCSRForCA(t *testing.T) {
	csr := func(annotations map[string]string, usage certificatesv1.KeyUsage) request.Request {
		return request.FromCSR(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Usages: []certificatesv1.KeyUsage{usage}},
		})
	}
	isCA := map[string]string{request.AnnotationIsCA: "true"}
	for reason, req := range map[string]request.Request{
		"without the usage": csr(isCA, "digital signature"),
		"with the usage":    csr(isCA, "cert sign"),
	} {
		asked, err := issuing.RequestOf(req)
		if err != nil || !asked.Terms.IsCA || asked.Terms.Usages.Key&x509.KeyUsageCertSign == 0 {
			t.Errorf("%s: %+v, %v", reason, asked, err)
		}
	}
	asked, err := issuing.RequestOf(csr(nil, "digital signature"))
	if err != nil || asked.Terms.IsCA || asked.Terms.Usages.Key&x509.KeyUsageCertSign != 0 {
		t.Errorf("without the annotation: %+v, %v", asked, err)
	}
}
