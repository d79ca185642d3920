package agent_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// signer answers requests as a well-behaved one does: a root, an intermediate
// that signs, and both times to spare.
type signer struct {
	t            *testing.T
	root, middle *x509.Certificate
	key          crypto.Signer
	serial       atomic.Int64
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	s := &signer{t: t}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.root = s.authority("root", nil, rootKey, rootKey)
	s.middle = s.authority("intermediate", s.root, s.key, rootKey)
	return s
}

func (s *signer) authority(name string, parent *x509.Certificate, key, parentKey crypto.Signer) *x509.Certificate {
	s.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent = template
	}
	return s.make(template, parent, key.Public(), parentKey)
}

func (s *signer) make(template, parent *x509.Certificate, key crypto.PublicKey, parentKey crypto.Signer) *x509.Certificate {
	s.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, parentKey)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		s.t.Fatal(err)
	}
	return cert
}

func encode(certs ...*x509.Certificate) string {
	var out bytes.Buffer
	for _, cert := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return out.String()
}

// status returns the status of a request with its certificate, which is valid
// for as long as the request allows.
func (s *signer) status(request *certificatesv1.PodCertificateRequest) certificatesv1.PodCertificateRequestStatus {
	s.t.Helper()
	csr, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil {
		s.t.Fatal(err)
	}
	lifetime := 24 * time.Hour
	if most := request.Spec.MaxExpirationSeconds; most != nil {
		lifetime = min(lifetime, time.Duration(*most)*time.Second)
	}
	start := time.Now().Add(-2 * time.Minute).Truncate(time.Second)
	leaf := s.make(&x509.Certificate{
		SerialNumber: big.NewInt(s.serial.Add(1)), NotBefore: start, NotAfter: start.Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local",
			Path: "/ns/" + request.Namespace + "/sa/" + request.Spec.ServiceAccountName}},
	}, s.middle, csr.PublicKey, s.key)
	return certificatesv1.PodCertificateRequestStatus{
		Conditions:       conditions("Issued", "Signed"),
		CertificateChain: encode(leaf, s.middle),
		NotBefore:        &metav1.Time{Time: leaf.NotBefore}, NotAfter: &metav1.Time{Time: leaf.NotAfter},
		BeginRefreshAt: &metav1.Time{Time: leaf.NotAfter.Add(-30 * time.Minute)},
	}
}

func conditions(kind, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "by a test", LastTransitionTime: metav1.Now()}}
}

// issue answers a request with a certificate and returns its chain.
func (s *signer) issue(h *host, request *certificatesv1.PodCertificateRequest) string {
	s.t.Helper()
	request = request.DeepCopy()
	request.Status = s.status(request)
	s.put(h, request)
	return request.Status.CertificateChain
}

// refuse answers a request with Denied or Failed.
func (s *signer) refuse(h *host, request *certificatesv1.PodCertificateRequest, kind, reason string) {
	s.t.Helper()
	request = request.DeepCopy()
	request.Status = certificatesv1.PodCertificateRequestStatus{Conditions: conditions(kind, reason)}
	s.put(h, request)
}

func (s *signer) put(h *host, request *certificatesv1.PodCertificateRequest) {
	s.t.Helper()
	_, err := h.admin.CertificatesV1().PodCertificateRequests(request.Namespace).UpdateStatus(s.t.Context(), request, metav1.UpdateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}
