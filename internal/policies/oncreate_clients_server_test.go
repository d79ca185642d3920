package policies_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
	csrclient "k8s.io/client-go/util/certificate/csr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

var clientUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth}

// Clients that create a request and then wait for its certificate find it.
func TestClientsOfIssueOnCreate(t *testing.T) {
	f := start(t, apitest.IssueOnCreate)
	f.policy("web", issueOnCreate)

	t.Run("client-go's helpers", func(t *testing.T) {
		key := apitest.NewKey(t)
		pem, err := pki.NewRequest(pki.Subject{CommonName: "web-helpers"}, key)
		if err != nil {
			t.Fatal(err)
		}
		name, uid, err := csrclient.RequestCertificateWithContext(t.Context(), f.api, pem, "", signerName, nil, clientUsages, key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := csrclient.WaitForCertificate(t.Context(), f.api, name, uid); err != nil {
			t.Error(err)
		}
	})
	t.Run("client-go's certificate manager, as kubelets have it", func(t *testing.T) {
		dir := t.TempDir()
		store, err := certificate.NewFileStore("client", dir, dir, "", "")
		if err != nil {
			t.Fatal(err)
		}
		manager, err := certificate.NewManager(&certificate.Config{
			ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return f.api, nil },
			Template:    &x509.CertificateRequest{Subject: pkix.Name{CommonName: "web-manager"}},
			SignerName:  signerName, Usages: clientUsages, CertificateStore: store,
		})
		if err != nil {
			t.Fatal(err)
		}
		manager.Start()
		defer manager.Stop()
		apitest.Eventually(t, "the manager has a certificate", func() bool { return manager.Current() != nil })
		if name := manager.Current().Leaf.Subject.CommonName; name != "web-manager" {
			t.Errorf("the certificate is for %s", name)
		}
	})
}
