package requestsign_test

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// A CA that has DNS names and no subject is issued, and an Issuer with it signs;
// an Event warns.
func TestNamelessCA(t *testing.T) {
	w := share(t, &common)
	caKey, key := apitest.NewKey(t), apitest.NewKey(t)
	nameless, err := pki.NewRequest(pki.Subject{DNSNames: []string{"ca.example.com"}}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	cr := request(t, "ca", cmmeta.IssuerReference{Name: "root"}, caKey)
	cr.Spec.Request, cr.Spec.IsCA, cr.Spec.Usages = nameless, true, []cmv1.KeyUsage{"cert sign"}
	w.create(t, newCA(t, "", "root", apitest.NewKey(t)), caIssuer("root", "root"), cr)
	issued := w.becomes(t, "ca", cmv1.CertificateRequestReasonIssued)
	secret := keySecret(t, "nameless", caKey)
	secret.Data[corev1.TLSCertKey], secret.Data[cmmeta.TLSCAKey] = issued.Status.Certificate, issued.Status.CA
	w.create(t, secret, caIssuer("nameless", "nameless"), request(t, "web", cmmeta.IssuerReference{Name: "nameless"}, key))
	chain, err := pki.ParseCertificates(w.becomes(t, "web", cmv1.CertificateRequestReasonIssued).Status.Certificate)
	if err != nil || len(chain) != 2 || chain[0].Issuer.String() != "" || chain[0].CheckSignatureFrom(chain[1]) != nil {
		t.Errorf("%v: a chain of %d, the first by %q", err, len(chain), chain[0].Issuer)
	}
	w.told(t, "web", ofCA, warningEvent, "BadConfig")
}

// The annotation alone asks for a CA, as with cert-manager.
func TestCSRForCAWithoutUsage(t *testing.T) {
	w := share(t, &common)
	w.create(t, newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	admin := apitest.Client(t, w.Admin(t))
	csr := apitest.NewCSR(t, "sub-"+w.namespace, "issuers.cert-manager.io/"+w.namespace+".ca", pki.Subject{CommonName: "sub"}, apitest.NewKey(t))
	csr.Annotations = map[string]string{"experimental.cert-manager.io/request-is-ca": "true"}
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	created := apitest.Create(t, admin, csr)
	apitest.Decide(t, admin, created, certificatesv1.CertificateApproved)
	chain, err := pki.ParseCertificates(apitest.Issued(t, admin, created))
	if err != nil || !chain[0].IsCA {
		t.Errorf("%v, a CA: %v", err, chain[0].IsCA)
	}
}
