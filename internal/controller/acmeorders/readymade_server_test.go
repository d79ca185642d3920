package acmeorders_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// The ready-made Signer takes what certbot and lego send, RSA keys and the first name as
// the common name, and signs for nobody but ACME clients.
func TestReadyMadeSigner(t *testing.T) {
	const signer = "certplane.dev/acme-hosts"
	w := acmetest.New(t, apitest.Start(t, func(c *server.Config) { c.PodSigners.Install = []string{"acme-hosts"} }),
		func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) { e.Spec.Profiles[0].Signer.Name = signer })
	w.AutoApprove()
	name := w.Preauthorized("a")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.NewRequest(pki.Subject{CommonName: name, DNSNames: []string{name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	o := w.Order(name)
	w.FinalizeWith(o, block.Bytes)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the order is %+v", o.Status)
	}
	chain, err := pki.ParseCertificates([]byte(o.Status.Certificate.Chain))
	if err != nil || chain[0].Subject.CommonName != name {
		t.Errorf("%v: %s", err, o.Status.Certificate.Chain)
	}

	admin := apitest.Client(t, w.Server.Admin(t))
	direct := apitest.NewCSR(t, "direct", signer, pki.Subject{DNSNames: []string{name}}, apitest.NewKey(t))
	direct.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	direct = apitest.Create(t, admin, direct)
	apitest.Decide(t, admin, direct, certificatesv1.CertificateApproved)
	apitest.Eventually(t, "the request of no order fails", func() bool {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(direct), direct); err != nil {
			t.Fatal(err)
		}
		for _, c := range direct.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed {
				return c.Reason == "NoOrder" && strings.Contains(c.Message, "orders of the ACME server alone")
			}
		}
		return false
	})
	if len(direct.Status.Certificate) > 0 {
		t.Error("it has a certificate")
	}
}
