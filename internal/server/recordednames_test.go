package server_test

import (
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// No name can be hidden in the inventory: behind many others it is found, too, and the record
// says that it is not the whole truth.
func TestNoNameIsHidden(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	names := make([]string, 1005)
	for i := range names {
		names[i] = fmt.Sprintf("a%d.example", i)
	}
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.Create(t, admin, newServing(t, "many", append(names, "X.Bank.example")...))
	apitest.Issued(t, admin, apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved))

	records, err := client.New(s.Admin(t), client.Options{Scheme: recordsScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"x.bank.example": 1, "a0.example": 1, "a1004.example": 1, "y.bank.example": 0} {
		var found inventoryv1alpha1.IssuedCertificateList
		if err := records.List(t.Context(), &found, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(inventoryv1alpha1.NameField, name)}); err != nil {
			t.Fatal(err)
		}
		if len(found.Items) != want {
			t.Errorf("%d certificates with the name %s were found, want %d", len(found.Items), name, want)
			continue
		}
		if want > 0 && int(found.Items[0].Certificate.OmittedNames)+len(found.Items[0].Certificate.DNSNames) != len(names)+1 {
			t.Errorf("the record does not say how many names it leaves out: %d, and has %d", found.Items[0].Certificate.OmittedNames, len(found.Items[0].Certificate.DNSNames))
		}
	}
}

// newServing returns a request for a server's certificate, which is not sent yet.
func newServing(t *testing.T, name string, dnsNames ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr := apitest.NewCSR(t, name, "certplane.dev/server", pki.Subject{DNSNames: dnsNames}, apitest.NewKey(t))
	csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	return csr
}
