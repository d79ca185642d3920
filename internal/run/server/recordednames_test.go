package server_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
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
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	w.newEditor(t, "a")
	for _, what := range []authorizationv1.ResourceAttributes{{Resource: "secrets"}, {Group: "cert-manager.io", Resource: "issuers"}, {Group: "cert-manager.io", Resource: "certificaterequests"}} {
		what.Namespace, what.Verb = "a", "create"
		w.UntilAllowed(t, "editor-a", nil, what)
	}
	names := make([]string, 1005)
	for i := range names {
		names[i] = fmt.Sprintf("a%d.example", i)
	}
	a := w.newIssuing(t, "a")
	csr, err := pki.NewRequest(pki.Subject{DNSNames: append(names, "X.Bank.example")}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.issueFor(t, csr); err != nil {
		t.Fatal(err)
	}

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
