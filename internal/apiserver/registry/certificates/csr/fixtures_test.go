package csr

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/pki"
)

type (
	condition = certificatesv1.CertificateSigningRequestCondition
	csr       = certificatesv1.CertificateSigningRequest
)

// The times in tests: objects were stored before now.
var (
	now     = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	earlier = metav1.NewTime(now.Add(-time.Hour))
	stamped = metav1.NewTime(now)
)

func newStrategy(t testing.TB) strategy {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := certificates.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return strategy{
		ObjectTyper:   scheme,
		NameGenerator: names.SimpleNameGenerator,
		durations:     true,
		now:           func() time.Time { return now },
	}
}

// in returns the context of a request that a client makes in version.
func in(version string) context.Context {
	return request.WithNamespace(request.WithRequestInfo(context.Background(), &request.RequestInfo{
		APIGroup: certificatesv1.GroupName, APIVersion: version, Resource: "certificatesigningrequests",
	}), metav1.NamespaceNone)
}

func newRequest(t testing.TB) []byte {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: "alice"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newCSR returns a stored request, after edits.
func newCSR(t testing.TB, edits ...func(*csr)) *csr {
	t.Helper()
	obj := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: "test", UID: "uid", ResourceVersion: "1", CreationTimestamp: earlier},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    newRequest(t),
			SignerName: "example.com/signer",
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Username:   "alice",
		},
	}
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

// newCertificate returns the PEM of a certificate that is valid for d.
func newCertificate(t testing.TB, d time.Duration) []byte {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(d)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func conditions(conditions ...condition) func(*csr) {
	return func(c *csr) { c.Status.Conditions = conditions }
}

// decided returns a stored condition, with a reason to identify it.
func decided(t certificatesv1.RequestConditionType, reason string) condition {
	return condition{Type: t, Status: "True", Reason: reason, LastUpdateTime: earlier, LastTransitionTime: earlier}
}
