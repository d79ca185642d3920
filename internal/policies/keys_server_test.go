package policies_test

import (
	"crypto"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// A key that an earlier request has is refused: at creation if the other request is
// stored already, and otherwise at signing.
func TestKeysAreNotUsedAgain(t *testing.T) {
	f := start(t)
	f.policy("web", func(*v1alpha1.CertificatePolicySpec) {})
	key := apitest.NewKey(t)
	with := func(name string) *certificatesv1.CertificateSigningRequest {
		return apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, key)
	}
	first := apitest.Create(t, f.api, with("web-1"))
	apitest.Issued(t, f.api, first)
	f.policy("new-keys", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect = v1alpha1.PolicyLimit
		s.Certificate = &v1alpha1.CertificateConditions{Keys: &v1alpha1.KeyConditions{Reuse: v1alpha1.KeyReuseRefuse}}
	})
	var err error
	apitest.Eventually(t, "a request with the key is refused", func() bool {
		// Until the requests are known, the approver decides.
		_, err = f.api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), with("web-2"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	if want := "certificate policy new-keys: the key was used by the CertificateSigningRequest web-1, and the policy permits only new keys"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("the request is answered with %v, want %s", err, want)
	}
	apitest.Issued(t, f.api, f.csr("web-3"))

	if err := f.api.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the key of a deleted request is not known", func() bool {
		_, err = f.api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), with("web-4"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
}

// Of requests with one key that went past admission and the approver, exactly one
// gets a certificate.
func TestOneRequestGetsTheKey(t *testing.T) {
	f := start(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-approve")
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	})
	f.policy("new-keys", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate = v1alpha1.PolicyLimit, &v1alpha1.CertificateConditions{Keys: &v1alpha1.KeyConditions{Reuse: v1alpha1.KeyReuseRefuse}}
	})
	key := apitest.NewKey(t)
	for _, name := range []string{"web-1", "web-2", "web-3", "web-4"} {
		csr := apitest.Create(t, f.api, apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, key))
		apitest.Decide(t, f.api, csr, "Approved")
	}
	issued, failed := 0, 0
	apitest.Eventually(t, "all requests are answered", func() bool {
		list, err := f.api.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		issued, failed = 0, 0
		for _, csr := range list.Items {
			if len(csr.Status.Certificate) > 0 {
				issued++
			}
			for _, c := range csr.Status.Conditions {
				if c.Type == certificatesv1.CertificateFailed && c.Reason == "KeyReused" {
					failed++
				}
			}
		}
		return issued+failed == 4
	})
	if issued != 1 || failed != 3 {
		t.Errorf("%d requests have a certificate, %d have failed", issued, failed)
	}
}

// With Require, an owner keeps the key: after a restart too.
func TestKeysAreKept(t *testing.T) {
	e := startElectorate(t)
	key := apitest.NewKey(t)
	request := func(name, common string, key crypto.Signer) *certificatesv1.CertificateSigningRequest {
		return apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: common}, key)
	}
	e.policy("web", func(s *v1alpha1.CertificatePolicySpec) {
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Certificate.Keys = &v1alpha1.KeyConditions{Reuse: v1alpha1.KeyReuseRequire}
	})
	alice := e.person(false, "alice").client
	admin := e.client(e.server.Admin(t))
	apitest.Issued(t, admin, apitest.Create(t, alice, request("a", "web-1", key)))
	e.restart()
	apitest.Eventually(t, "another key is refused", func() bool {
		_, err := alice.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request("b", "web-1", apitest.NewKey(t)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "the key differs from that in the owner's previous request, the CertificateSigningRequest a")
	})
	apitest.Issued(t, admin, apitest.Create(t, alice, request("c", "web-1", key)))
	apitest.Issued(t, admin, apitest.Create(t, alice, request("d", "web-2", apitest.NewKey(t))))
	bob := e.person(false, "bob").client
	apitest.Issued(t, admin, apitest.Create(t, bob, request("e", "web-1", apitest.NewKey(t))))
}
