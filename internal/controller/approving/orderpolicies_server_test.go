package approving_test

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
)

// allowOrders stores a policy that approves requests for orders of which an
// expression is true, and waits until it is in force.
func allowOrders(t *testing.T, w *acmetest.World, expression string) {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyAllow,
		Match: v1alpha1.PolicyMatch{
			Signers: []string{w.SignerName}, Origins: []v1alpha1.RequestOrigin{v1alpha1.OriginACME},
			Conditions: []v1alpha1.MatchCondition{{Name: "order", Expression: v1alpha1.CEL(expression)}},
		},
		Certificate: &v1alpha1.CertificateConditions{
			Names:  &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{w.Namespace + ".example"}}},
			Usages: &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "server auth"}},
		},
	}}
	w.Create(p)
	apitest.Eventually(t, "the policy is in force", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
}

// Policies see the order that proves a request, and nothing that a request says of
// itself: neither in its creation nor later.
func TestPoliciesSeeOrders(t *testing.T) {
	w := acmetest.New(t, alone.Start(t))
	allowOrders(t, w, `acme.endpoint == "`+w.Namespace+`" && acme.account == "`+w.Account.Name+`" && acme.externalKey == "`+w.Namespace+`/fleet" &&
		acme.identifiers.all(i, i.type == "dns" && !i.wildcard && i.value.endsWith(".example") && i.origin == "Preauthorized" && i.method == "" && i.validated <= request.time + duration("1m"))`)
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	as := apitest.Client(t, w.Server.As(t, who.Username, who.Groups...))
	proven, forgedOf := named(w), named(w)
	forged := made(t, w, forgedOf)
	forged.Spec.ExpirationSeconds = new(int32(86400)) // not what is made for the order
	forged = apitest.Create(t, as, forged)
	unnamed := made(t, w, proven)
	unnamed.Name = "not-" + unnamed.Name
	unnamed = apitest.Create(t, as, unnamed)

	csr := apitest.Create(t, as, made(t, w, proven))
	apitest.Eventually(t, "the policy approves the request of the order", func() bool { return isApprovedBy(t, w, csr.Name, "PolicyApproved") })
	// Once it is stored, the order says which request is its own.
	forgedOf.Status = *acmeorder.RecordRequest(forgedOf, forged.UID, time.Now())
	forgedOf.Status.CSR = append(forgedOf.Status.CSR, 0)
	w.UpdateStatus(forgedOf)
	stillUndecided(t, w, forged, unnamed)
}

// named returns an order that names its request, which is not made.
func named(w *acmetest.World) *v1alpha1.AcmeOrder {
	w.Helper()
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	return o
}

// stillUndecided reports requests that were decided. By then the request of another
// order, which came later, is approved.
func stillUndecided(t *testing.T, w *acmetest.World, requests ...*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	later := acmetest.New(t, w.Server)
	later.AutoApprove()
	who := request.ServiceAccount(later.Namespace, acmetest.ServiceAccount)
	csr := apitest.Create(t, apitest.Client(t, w.Server.As(t, who.Username, who.Groups...)), made(t, later, named(later)))
	apitest.Eventually(t, "the later request is approved", func() bool { return isApprovedBy(t, later, csr.Name, acmeorder.ReasonByRight) })
	undecided(t, w, requests...)
}

// Policies do not take an order for proof whose account is not in force anymore.
func TestPoliciesAndRevokedAccounts(t *testing.T) {
	w := acmetest.New(t, alone.Start(t))
	allowOrders(t, w, `has(acme.endpoint)`)
	o := named(w)
	w.Change(w.Account, func() { w.Account.Spec.Decision = v1alpha1.AcmeDecisionRevoked })
	who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
	stillUndecided(t, w, apitest.Create(t, apitest.Client(t, w.Server.As(t, who.Username, who.Groups...)), made(t, w, o)))
}
