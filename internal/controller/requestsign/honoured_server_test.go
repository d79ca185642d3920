package requestsign_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// An Issuer with a CA whose client certificates the API honours issues no
// certificate that is above authorization, and no CA, which could issue one,
// for either kind of request.
func TestHonouredCA(t *testing.T) {
	w := share(t, &common)
	w.create(t, w.ClientCASecret(t, "", "clients"), caIssuer("clients", "clients"), newCA(t, "", "ca", apitest.NewKey(t)), caIssuer("ca", "ca"))
	subject := pki.Subject{CommonName: "mallory", Organizations: []string{"system:masters"}}
	csr, err := pki.NewRequest(subject, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*cmv1.CertificateRequest){
		"masters": func(cr *cmv1.CertificateRequest) { cr.Spec.Request = csr },
		"sub-ca":  func(cr *cmv1.CertificateRequest) { cr.Spec.IsCA, cr.Spec.Usages = true, []cmv1.KeyUsage{"cert sign"} },
	} {
		cr := request(t, name, cmmeta.IssuerReference{Name: "clients"}, apitest.NewKey(t))
		change(cr)
		w.create(t, cr)
		failed := w.becomes(t, name, cmv1.CertificateRequestReasonFailed)
		message := api.RequestCondition(failed, cmv1.CertificateRequestConditionReady).Message
		if !strings.Contains(message, "group system:masters cannot be requested") && !strings.Contains(message, "the API server honours client certificates of this CA") {
			t.Errorf("%s: %s", name, message)
		}
		elsewhere := request(t, name+"-elsewhere", cmmeta.IssuerReference{Name: "ca"}, apitest.NewKey(t))
		change(elsewhere)
		w.create(t, elsewhere)
		w.becomes(t, name+"-elsewhere", cmv1.CertificateRequestReasonIssued)
	}
	key := apitest.NewKey(t)
	w.create(t, request(t, "harmless", cmmeta.IssuerReference{Name: "clients"}, key))
	w.becomes(t, "harmless", cmv1.CertificateRequestReasonIssued)

	admin := apitest.Client(t, w.Admin(t))
	signed := apitest.NewCSR(t, "masters-"+w.namespace, "issuers.cert-manager.io/"+w.namespace+".clients", subject, key)
	apitest.Decide(t, admin, apitest.Create(t, admin, signed), certificatesv1.CertificateApproved)
	w.failed(t, signed.Name, certificatesv1.CertificateFailed, "SigningError")
}
