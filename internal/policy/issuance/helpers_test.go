package issuance_test

import (
	"crypto"
	"strconv"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	certissuing "github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/ca"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/secret"
	"github.com/certplane/certplane/internal/policy/request"
)

// now is when the certificates of the tests have been issued.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const hour = time.Hour

// life is that of the certificates of the tests, so renewal is after 60 hours.
const life = 90 * hour

// world has a Certificate with all that belongs to it, as it is after an
// issuance that went well. Tests change what they are about.
type world struct {
	t        testing.TB
	ca       *pki.Authority
	crt      *cmv1.Certificate
	secret   *corev1.Secret
	requests []*cmv1.CertificateRequest
	owner    *cmv1.Certificate
	key      crypto.Signer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, key: newKey(t, pki.ECDSAP256)}
	var err error
	if w.ca, err = pki.NewRoot(pki.UnrecordedSigning, "root", newKey(t, pki.ECDSAP256), 1000*hour, now.Add(-hour)); err != nil {
		t.Fatal(err)
	}
	w.crt = newCertificate("web")
	cr := w.newRequest(w.key)
	w.answer(cr, now)
	w.requests = []*cmv1.CertificateRequest{cr}
	w.secret = w.newSecret(w.key, cr)
	issuance.SetIssued(w.crt)
	return w
}

func newKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newCertificate(name string) *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid"), Generation: 3},
		Spec: cmv1.CertificateSpec{
			CommonName: "web", DNSNames: []string{"example.com"}, SecretName: "web-tls", Duration: &metav1.Duration{Duration: life},
			IssuerRef:  cmmeta.IssuerReference{Name: "ca"},
			PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		},
	}
}

// newRequest makes the request for the next certificate.
func (w *world) newRequest(key crypto.Signer) *cmv1.CertificateRequest {
	w.t.Helper()
	cr, err := issuance.NewRequest(w.crt, key, issuance.CopiedAnnotations{"*"})
	if err != nil {
		w.t.Fatal(err)
	}
	return cr
}

// temporary makes the certificate that serves until the issuer has answered.
func (w *world) temporary(cr *cmv1.CertificateRequest, at time.Time) ([]byte, error) {
	req, err := certissuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		return nil, err
	}
	return req.Temporary(w.t.Context(), secret.TemporaryIssuer, at)
}

// answer has the CA sign a request.
func (w *world) answer(cr *cmv1.CertificateRequest, at time.Time) {
	w.t.Helper()
	req, err := certissuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		w.t.Fatal(err)
	}
	issued, err := ca.Sign(w.t.Context(), certissuing.Config{Issuing: pki.Unrecorded}, req, &cmv1.CAIssuer{}, w.ca, at)
	if err != nil {
		w.t.Fatal(err)
	}
	cr.Status.Certificate, cr.Status.CA = issued.PEM, issued.CA
	certmanager.SetRequestCondition(cr, cmv1.CertificateRequestConditionReady, cmmeta.ConditionTrue, cmv1.CertificateRequestReasonIssued, "", metav1.NewTime(at))
}

func (w *world) newSecret(key crypto.Signer, cr *cmv1.CertificateRequest) *corev1.Secret {
	w.t.Helper()
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-tls",
			Annotations: map[string]string{cmv1.CertificateNameKey: w.crt.Name, cmv1.IssuerNameAnnotationKey: cr.Spec.IssuerRef.Name, cmv1.IssuerKindAnnotationKey: "", cmv1.IssuerGroupAnnotationKey: ""},
		},
		Data: map[string][]byte{corev1.TLSCertKey: cr.Status.Certificate, corev1.TLSPrivateKeyKey: data, cmmeta.TLSCAKey: cr.Status.CA},
	}
}

func (w *world) situation() issuance.Situation {
	return issuance.Situation{Certificate: w.crt, Secret: w.secret, Requests: issuance.Own(w.crt, w.requests), Owner: w.owner}
}

// next starts an issuance at a time and makes its key and request.
func (w *world) next(at time.Time) (crypto.Signer, *cmv1.CertificateRequest) {
	w.t.Helper()
	issuance.SetIssuing(w.crt, issuance.Finding{Reason: "Test"}, at)
	key := newKey(w.t, pki.ECDSAP256)
	w.crt.Status.NextPrivateKeySecretName = ptr.To("web-abc")
	cr := w.newRequest(key)
	w.requests = append(w.requests, cr)
	return key, cr
}

// condition gives a request a condition at a time.
func condition(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason string, at time.Time) {
	certmanager.SetRequestCondition(cr, kind, status, reason, "because", metav1.NewTime(at))
}

func revision(cr *cmv1.CertificateRequest, n int) {
	cr.Annotations[cmv1.CertificateRequestRevisionAnnotationKey] = strconv.Itoa(n)
}
