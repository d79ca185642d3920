//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package podsign_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/certplane/certplane/internal/pki"
)

// A pod gets what its Signer specifies, in the form that the API requires.
func TestIssued(t *testing.T) {
	w := newWorld(t, common.Start(t))
	w.declare(t, w.newSigner())
	pod := w.pod(t, "web-1", nil)
	for name, request := range map[string]func(crypto.Signer) *certificatesv1beta1.PodCertificateRequest{
		"stub": func(key crypto.Signer) *certificatesv1beta1.PodCertificateRequest {
			return w.requestOf(t, pod, "stub", key)
		},
		"legacy": func(key crypto.Signer) *certificatesv1beta1.PodCertificateRequest {
			return legacy(t, w.requestOf(t, pod, "legacy", key), key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := newKey(t, pki.Ed25519)
			w.create(t, request(key))
			answered := w.answered(t, name)
			leaf := leafOf(t, answered)
			if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://example.org/ns/"+w.namespace+"/sa/web" {
				t.Errorf("URIs %v", leaf.URIs)
			}
			if !pki.SameKey(leaf.PublicKey, key.Public()) {
				t.Error("another key")
			}
			roots := x509.NewCertPool()
			roots.AddCert(w.caOf(t, "signer-"+w.namespace))
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
				t.Error(err)
			}
			status := answered.Status
			if life := leaf.NotAfter.Sub(leaf.NotBefore); life != 2*time.Hour || !status.NotBefore.Time.Equal(leaf.NotBefore) || !status.NotAfter.Time.Equal(leaf.NotAfter) {
				t.Errorf("lives for %v: %v to %v", life, status.NotBefore, status.NotAfter)
			}
			if at := status.BeginRefreshAt.Time; at.Before(leaf.NotBefore.Add(time.Hour)) || at.After(leaf.NotAfter.Add(-10*time.Minute)) {
				t.Errorf("refreshed at %v", at)
			}
		})
	}
}

func newKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// legacy changes a request to what kubelets of Kubernetes 1.35 send, with an
// Ed25519 key.
func legacy(t testing.TB, r *certificatesv1beta1.PodCertificateRequest, key crypto.Signer) *certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	var err error
	if r.Spec.PKIXPublicKey, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	if r.Spec.ProofOfPossession, err = key.Sign(rand.Reader, []byte(r.Spec.PodUID), crypto.Hash(0)); err != nil {
		t.Fatal(err)
	}
	r.Spec.StubPKCS10Request = nil
	return r
}
