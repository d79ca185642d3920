package certificates

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// condition and csr abbreviate the wanted and submitted objects in tables.
type (
	condition = certificatesv1.CertificateSigningRequestCondition
	csr       = certificatesv1.CertificateSigningRequest
	edit      = func(*csr)
)

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRequest(t testing.TB, subject pki.Subject) []byte {
	t.Helper()
	request, err := pki.NewRequest(subject, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// newCertificate returns a self-signed certificate in DER.
func newCertificate(t testing.TB) []byte {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "issued"},
		NotBefore:    time.Unix(1_700_000_000, 0),
		NotAfter:     time.Unix(1_800_000_000, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(label string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
}

// chain returns an acceptable status.certificate with everything in it that is
// allowed.
func chain(t testing.TB) []byte {
	der := newCertificate(t)
	return bytes.Join([][]byte{
		[]byte("Leaf:\n"), block("CERTIFICATE", der),
		[]byte("\nIntermediates:\n"), block("CERTIFICATE", append(der[:len(der):len(der)], der...)),
		[]byte("\nThe end\n"),
	}, nil)
}

// newCSR returns a request that is valid unless an edit makes it invalid.
func newCSR(t testing.TB, edits ...edit) *csr {
	t.Helper()
	obj := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "test", ResourceVersion: "1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    newRequest(t, pki.Subject{CommonName: "alice"}),
			SignerName: "example.com/signer",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

// changed returns a copy of obj with more edits.
func changed(obj *csr, edits ...edit) *csr {
	obj = obj.DeepCopy()
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func signer(name string) edit { return func(c *csr) { c.Spec.SignerName = name } }

func usages(names ...certificatesv1.KeyUsage) edit { return func(c *csr) { c.Spec.Usages = names } }

func expires(seconds int32) edit { return func(c *csr) { c.Spec.ExpirationSeconds = &seconds } }

func certificate(data []byte) edit { return func(c *csr) { c.Status.Certificate = data } }

func finalizers(names ...string) edit { return func(c *csr) { c.Finalizers = names } }

// conditions replaces the conditions by ones of the given types with status
// True.
func conditions(types ...certificatesv1.RequestConditionType) edit {
	return func(c *csr) {
		c.Status.Conditions = nil
		for _, t := range types {
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: t, Status: corev1.ConditionTrue})
		}
	}
}

// reasons gives every condition a reason.
func reasons(reason string) edit {
	return func(c *csr) {
		for i := range c.Status.Conditions {
			c.Status.Conditions[i].Reason = reason
		}
	}
}

// texts returns the errors as clients read them.
func texts(errs field.ErrorList) []string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
