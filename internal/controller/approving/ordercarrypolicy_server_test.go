package approving_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// approvers returns two people who may approve for the signer of a world.
func approvers(w *acmetest.World) (names []string, as []kubernetes.Interface) {
	w.Helper()
	for _, name := range []string{"dave-" + w.Namespace, "erin-" + w.Namespace} {
		w.Server.Grant(w, name, apitest.Allow("get list update patch", "certificatesigningrequests certificatesigningrequests/approval"), apitest.Allow("approve", "signers", w.SignerName))
		names, as = append(names, name), append(as, apitest.Client(w, w.Server.Login(w, name)))
	}
	return names, as
}

// changePolicy changes what the policy of a world requires of people, and waits until that is
// in force.
func changePolicy(w *acmetest.World, change func(*v1alpha1.PeopleRequirement)) {
	w.Helper()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	w.Change(p, func() { change(p.Spec.Approval.People) })
	apitest.Eventually(w, "the policy is in force", func() bool {
		return w.Objects.Get(w.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// A policy that wants people can let their approvals of an order count for later ones of the
// account. One that does not say so is never passed by.
func TestPolicyCarriesOver(t *testing.T) {
	w := acmetest.New(t, shared.Start(t), carrying)
	names, as := approvers(w)
	wantPeople(t, w)
	waiting := func(name string) (*v1alpha1.AcmeOrder, *certificatesv1.CertificateSigningRequest) {
		o := w.Order(w.Preauthorized(name))
		w.Finalize(o)
		o = w.Until(o, "has a request", hasRequest)
		return o, requestOf(w, o)
	}
	awaits := func(csr *certificatesv1.CertificateSigningRequest) {
		t.Helper()
		apitest.Eventually(t, "the request awaits people", func() bool {
			if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
				t.Fatal(err)
			}
			return len(csr.Status.Conditions) > 0
		})
		if isDecided(csr) {
			t.Errorf("the request is decided: %+v", csr.Status.Conditions)
		}
	}
	approved := func(name string) *v1alpha1.AcmeOrder {
		o, csr := waiting(name)
		awaits(csr) // and is not written meanwhile
		for _, person := range as {
			csr = apitest.Decide(t, person, csr, certificatesv1.CertificateApproved)
		}
		if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
			t.Fatalf("the approved order is %+v", o.Status)
		}
		return o
	}
	// By default, approvals count for their request alone, though the endpoint carries them over.
	if first := approved("a"); first.Status.Approval != nil && first.Status.Approval.Sealed != "" {
		t.Errorf("the approvals may count for later orders: %+v", first.Status.Approval)
	}
	_, still := waiting("a")
	awaits(still)

	changePolicy(w, func(p *v1alpha1.PeopleRequirement) { p.CarryOver = v1alpha1.CarryOverAllowed })
	second := approved("b")
	if a := second.Status.Approval; a == nil || a.Sealed == "" || len(a.SealedOthers) != 1 || a.By != names[1] {
		t.Fatalf("the approval is %+v", a)
	}
	later, _ := waiting("b")
	later = w.Ended(later)
	if a := later.Status.Approval; later.Status.State != v1alpha1.AcmeOrderValid || a == nil || a.CarriedFrom != second.Name {
		t.Fatalf("the later order is %+v", later.Status)
	}
	csr := requestOf(w, later)
	if !isApprovedBy(t, w, csr.Name, acmeorder.ReasonCarriedOver) || !strings.Contains(csr.Status.Conditions[0].Message, "the approvals of the AcmeOrder "+w.Namespace+"/"+second.Name+" by "+strings.Join(names, ", ")+" count") {
		t.Errorf("%+v", csr.Status.Conditions)
	}
	_, other := waiting("c") // another name
	awaits(other)

	// What the policy says now holds: too few people, or that they have to approve each.
	changePolicy(w, func(p *v1alpha1.PeopleRequirement) { p.Count = 3 })
	o, three := waiting("b")
	w.Until(o, "looks at the earlier order", func(o *v1alpha1.AcmeOrder) bool { return o.Status.CarryFrom == second.Name })
	awaits(three)
	changePolicy(w, func(p *v1alpha1.PeopleRequirement) { p.Count, p.CarryOver = 2, v1alpha1.CarryOverForbidden })
	o, forbidden := waiting("b")
	w.Until(o, "looks at the earlier order", func(o *v1alpha1.AcmeOrder) bool { return o.Status.CarryFrom == second.Name })
	awaits(forbidden)
	leftUndecided(t, w, still, other, three, forbidden)
}

// leftUndecided reports requests that were decided. By then a later order of another
// world has got its certificate.
func leftUndecided(t *testing.T, w *acmetest.World, requests ...*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	leftAlone(t, w)
	for _, csr := range requests {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil || isDecided(csr) {
			t.Errorf("the request %s: %+v, %v", csr.Name, csr.Status.Conditions, err)
		}
	}
}
