package apitest

import (
	"context"
	"crypto"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	csrclient "k8s.io/client-go/util/certificate/csr"

	"github.com/certplane/certplane/internal/pki"
)

// NewKey makes a private key.
func NewKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// NewCSR makes a request for a client certificate; it is not sent yet.
func NewCSR(t testing.TB, name, signerName string, subject pki.Subject, key crypto.Signer) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request, err := pki.NewRequest(subject, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    request,
			SignerName: signerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
}

// Create stores csr and returns it as the server has it.
func Create(t testing.TB, client kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	created, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a request: %v", err)
	}
	return created
}

// With returns csr with one more condition, which is true.
func With(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Test", Message: "decided by a test",
	})
	return csr
}

// Decide adds a condition, such as Approved, through /approval.
func Decide(t testing.TB, client kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	decided, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, With(csr, kind), metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("deciding a request: %v", err)
	}
	return decided
}

// Issued waits for the certificate of csr.
func Issued(t testing.TB, client kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	certificate, err := csrclient.WaitForCertificate(ctx, client, csr.Name, csr.UID)
	if err != nil {
		t.Fatalf("waiting for the certificate of %s: %v", csr.Name, err)
	}
	return certificate
}

// NewNamespace makes a namespace.
func NewNamespace(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("making namespace %s: %v", name, err)
	}
}

// OwnNamespace makes a namespace for one test and returns its name.
func OwnNamespace(t testing.TB, client kubernetes.Interface) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	made, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	return made.Name
}
