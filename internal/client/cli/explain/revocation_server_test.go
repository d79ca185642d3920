package explain_test

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

// A certificate is explained with its revocation, who refuses it, and the way to revoke
// it; a Revocation with what it has done.
func TestRevocation(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.Create(t, admin, apitest.NewCSR(t, "lost", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "lost"}, apitest.NewKey(t)))
	apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
	cert, err := pki.ParseFirst(apitest.Issued(t, admin, csr))
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := pki.Fingerprint(cert)
	record := func(name string) string {
		return string(explains(t, s.Admin(t), func(cfg *verb.Config) error { return verb.Record(t.Context(), *cfg) }, name, ""))
	}
	request := func() string {
		return string(explains(t, s.Admin(t), func(cfg *verb.Config) error { return verb.Run(t.Context(), *cfg) }, "lost", ""))
	}
	tells(t, record(fingerprint[:32]), "The certificate of CN=lost is valid until ", "request CertificateSigningRequest lost", "certplane revoke --fingerprint "+fingerprint+" --reason ...")

	api, err := explain.Connect(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{Name: "inc-4711"}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{Fingerprint: fingerprint}}, Reason: "KeyCompromise", Message: "left in a train",
	}}
	if err := api.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	by := r.Status.RequestedBy.Username
	tells(t, record(fingerprint), "The certificate of CN=lost is revoked since ", ": KeyCompromise, by "+by+" (Revocation inc-4711)",
		"yes refused this server refuses the certificate since ", " Listed ", "certplane explain revocation inc-4711")
	tells(t, request(), "its certificate is revoked since ", "(Revocation inc-4711)", "effect this server refuses the certificate")
	tells(t, string(explains(t, s.Admin(t), func(cfg *verb.Config) error { return verb.Revocation(t.Context(), *cfg) }, "inc-4711", "")),
		"inc-4711 has revoked 1 of 1 certificates: ", "message left in a train", "certificates "+fingerprint, "yes Recorded the certificates are refused by this server",
		"request another one with a new key", "certplane explain issuedcertificate "+fingerprint, "cannot be undone")
}
