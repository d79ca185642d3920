//go:build pkcs11

package pkcs11_test

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/keystore/pkcs11"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// tokenCA makes a CA whose key cannot leave the token.
func tokenCA(t *testing.T, h pkcs11.HSM, kind, name string) *x509.Certificate {
	t.Helper()
	public := h.Generate(t, kind, "issuing")
	token, err := pkcs11.Open(h.URI("issuing"))
	if err != nil {
		t.Fatal(err)
	}
	defer token.Close()
	key, err := token.Find(t.Context(), public)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

func install(t *testing.T, path string, ca *x509.Certificate) {
	t.Helper()
	if err := os.WriteFile(path, pki.EncodeCertificates(ca), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestServer: a CA key that never leaves its token signs requests, many at
// once, after the token was away, and gives way to the next key on the token.
func TestServer(t *testing.T) {
	h := pkcs11.NewHSM(t)
	first := tokenCA(t, h, "P-256", "first")
	settings := keystore.Settings{CertFile: filepath.Join(t.TempDir(), "ca.crt"), Key: h.URI("issuing")}
	install(t, settings.CertFile, first)
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Signing.CA = settings })
	w := world{t: t, admin: apitest.Client(t, s.Admin(t))}

	w.burst(20, first)
	h.LoseSessions(t)
	w.burst(5, first)

	second := tokenCA(t, h, "RSA", "second")
	install(t, settings.CertFile, second)
	apitest.Eventually(t, "the token's next key signs", func() bool {
		return w.issue("next").Issuer.CommonName == "second"
	})
	w.burst(5, second)
}

type world struct {
	t     *testing.T
	admin kubernetes.Interface
	asked int
}

// issue has the server sign a request.
func (w *world) issue(name string) *x509.Certificate {
	w.t.Helper()
	w.asked++
	key := apitest.NewKey(w.t)
	csr := apitest.NewCSR(w.t, fmt.Sprintf("%s-%d", name, w.asked), certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, key)
	csr = apitest.Decide(w.t, w.admin, apitest.Create(w.t, w.admin, csr), certificatesv1.CertificateApproved)
	return w.certificate(csr, key)
}

func (w *world) certificate(csr *certificatesv1.CertificateSigningRequest, key crypto.Signer) *x509.Certificate {
	w.t.Helper()
	chain, err := pki.ParseCertificates(apitest.Issued(w.t, w.admin, csr))
	if err != nil {
		w.t.Fatal(err)
	}
	if !pki.SameKey(chain[0].PublicKey, key.Public()) {
		w.t.Errorf("%s has a certificate for another key", csr.Name)
	}
	return chain[0]
}

// burst has the server sign requests at the same time, and verifies that a CA
// has signed them.
func (w *world) burst(size int, ca *x509.Certificate) {
	w.t.Helper()
	requests, keys := make([]*certificatesv1.CertificateSigningRequest, size), make([]crypto.Signer, size)
	var group errgroup.Group
	for i := range size {
		w.asked++
		keys[i] = apitest.NewKey(w.t)
		requests[i] = apitest.NewCSR(w.t, fmt.Sprintf("burst-%d", w.asked), certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "burst"}, keys[i])
		requests[i] = apitest.Create(w.t, w.admin, requests[i])
		group.Go(func() error {
			_, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(w.t.Context(), requests[i].Name,
				apitest.With(requests[i], certificatesv1.CertificateApproved), metav1.UpdateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
	for i, request := range requests {
		if err := w.certificate(request, keys[i]).CheckSignatureFrom(ca); err != nil {
			w.t.Errorf("%s: %v", request.Name, err)
		}
	}
}
