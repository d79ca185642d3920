package issuance_test

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	certissuing "github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/selfsigned"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/request"
)

// A CA that keeps its key keeps its key identifier, whichever issuer renews it.
func TestKeyIDOfRenewedCA(t *testing.T) {
	w := newWorld(t)
	w.crt.Spec.IsCA = true
	key := newKey(t, pki.ECDSAP256)
	spki, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	id := sha1.Sum(spki[len(spki)-65:]) // method 1 of RFC 5280 section 4.2.1.2
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web"}, NotBefore: now, NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, SubjectKeyId: id[:],
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	w.secret.Data[corev1.TLSCertKey] = pki.EncodeCertificates(cert)
	w.crt.Annotations = map[string]string{request.AnnotationSubjectKeyID: "77"}

	cr := w.newRequest(key)
	issuance.MarkKeyID(w.situation(), cr, key.Public())
	if got := cr.Annotations[request.AnnotationSubjectKeyID]; got != hex.EncodeToString(id[:]) {
		t.Fatalf("annotation %q", got)
	}
	w.answer(cr, now.Add(hour))
	assertKeyID(t, "CA", cr.Status.Certificate, id[:])

	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := certissuing.RequestOf(request.FromCertificateRequest(cr))
	if err != nil {
		t.Fatal(err)
	}
	from := selfsigned.KeySecret{Name: "key", Secret: &corev1.Secret{Data: map[string][]byte{corev1.TLSPrivateKeyKey: keyPEM}}}
	issued, err := selfsigned.Sign(t.Context(), pki.Unrecorded, req, &cmv1.SelfSignedIssuer{}, from, now)
	if err != nil {
		t.Fatal(err)
	}
	assertKeyID(t, "SelfSigned", issued.PEM, id[:])

	// Another key has its own identifier, and so has a certificate of no CA.
	other := newKey(t, pki.ECDSAP256)
	cr = w.newRequest(other)
	issuance.MarkKeyID(w.situation(), cr, other.Public())
	if got, has := cr.Annotations[request.AnnotationSubjectKeyID]; has {
		t.Errorf("for another key: %q", got)
	}
	w.crt.Spec.IsCA = false
	cr = w.newRequest(key)
	issuance.MarkKeyID(w.situation(), cr, key.Public())
	if got, has := cr.Annotations[request.AnnotationSubjectKeyID]; has {
		t.Errorf("for no CA: %q", got)
	}
	cr.Annotations[request.AnnotationSubjectKeyID] = "0102"
	w.answer(cr, now.Add(hour))
	usual, err := pki.KeyID(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	assertKeyID(t, "no CA", cr.Status.Certificate, usual)
}

func assertKeyID(t *testing.T, issuer string, data []byte, want []byte) {
	t.Helper()
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		t.Fatal(err)
	}
	if string(certs[0].SubjectKeyId) != string(want) {
		t.Errorf("%s: key identifier %x, want %x", issuer, certs[0].SubjectKeyId, want)
	}
}
