package approving_test

import (
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/acmetest"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/run/server"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared, &alone) }

func requestOf(w *acmetest.World, o *v1alpha1.AcmeOrder) *certificatesv1.CertificateSigningRequest {
	w.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := w.Objects.Get(w.Context(), client.ObjectKey{Name: acmeorder.RequestName(o)}, csr); err != nil {
		w.Fatal(err)
	}
	return csr
}

func hasRequest(o *v1alpha1.AcmeOrder) bool {
	return o.Status.Request != nil && o.Status.Request.UID != ""
}

// A right that comes late approves what waits. The request is approved by the order
// alone, in its creation or after that.
func TestRightComesLate(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	o = w.Until(o, "has a request", hasRequest)
	if csr := requestOf(w, o); len(csr.Status.Conditions) > 0 {
		t.Errorf("without the right: %+v", csr.Status.Conditions)
	}
	w.AutoApprove()
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Errorf("the order is %+v", o.Status)
	}
	for _, c := range requestOf(w, o).Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved && c.Reason != acmeorder.ReasonByRight {
			t.Errorf("%+v", c)
		}
	}
}

// An endpoint can leave all approvals to people.
func TestManual(t *testing.T) {
	w := acmetest.New(t, shared.Start(t), func(e *v1alpha1.AcmeEndpoint, _ *v1alpha1.AcmeExternalKey) {
		e.Spec.Approval.Mode = v1alpha1.AcmeApprovalManual
	})
	w.AutoApprove()
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	o = w.Until(o, "has a request", hasRequest)
	leftAlone(t, w, requestOf(w, o))
}

// made returns the request that is made for an order.
func made(t *testing.T, w *acmetest.World, o *v1alpha1.AcmeOrder) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr, err := acmeorder.SigningRequest(o, w.Account, &w.Endpoint.Spec.Profiles[0], 12*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// isApprovedBy reports whether a request is approved for a reason.
func isApprovedBy(t *testing.T, w *acmetest.World, name, reason string) bool {
	t.Helper()
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := w.Objects.Get(t.Context(), client.ObjectKey{Name: name}, csr); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved && c.Reason == reason
	})
}

// leftAlone reports a request that was approved or denied. By then another order,
// which came later, has its certificate.
func leftAlone(t *testing.T, w *acmetest.World, requests ...*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	later := acmetest.New(t, w.Server)
	later.AutoApprove()
	o := later.Order(later.Preauthorized("later"))
	later.Finalize(o)
	if o = later.Ended(o); o.Status.State != v1alpha1.AcmeOrderValid {
		t.Fatalf("the later order is %+v", o.Status)
	}
	undecided(t, w, requests...)
}

func undecided(t *testing.T, w *acmetest.World, requests ...*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	for _, csr := range requests {
		if err := w.Objects.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil || len(csr.Status.Conditions) > 0 {
			t.Errorf("the request %s: %+v, %v", csr.Name, csr.Status.Conditions, err)
		}
	}
}

// Requests that are not those of their orders are never approved, whatever their
// labels, annotations and contents say.
func TestForgedRequests(t *testing.T) {
	started := shared.Start(t)
	w := acmetest.New(t, started)
	w.AutoApprove()
	proven, unproven := w.Order(w.Preauthorized("a")), w.Order("b."+w.Namespace+".example")
	w.Finalize(proven)
	own := requestOf(w, w.Ended(proven))
	groups := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount).Groups
	as := apitest.Client(t, started.As(t, own.Spec.Username, groups...))
	var forged []*certificatesv1.CertificateSigningRequest
	for _, name := range []string{"acme-" + acmetest.ID(), acmeorder.RequestName(unproven), "not-" + own.Name} {
		made := apitest.Create(t, as, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: own.Labels, Annotations: own.Annotations},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: own.Spec.Request, SignerName: own.Spec.SignerName, Usages: own.Spec.Usages, ExpirationSeconds: own.Spec.ExpirationSeconds,
			},
		})
		if len(made.Status.Conditions) > 0 {
			t.Errorf("%s was approved in its creation: %+v", name, made.Status.Conditions)
		}
		forged = append(forged, made)
	}
	leftAlone(t, w, forged...)
}

// alone is a server whose orders nobody but the tests makes requests for, and which does
// not approve all CertificateRequests.
var alone = apitest.Shared{Options: []func(*server.Config){apitest.IssueOnCreate, func(c *server.Config) {
	c.Controllers = append(c.Controllers, "-acme-orders", "-acme-cleaner", "-certificaterequests-approver")
}}}

// The order as it is now decides, and not what it was when it was finalized: the right
// of the ServiceAccount is not enough. The answer to the creation of the request says
// whether it is approved.
func TestWithdrawnMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		change   func(*acmetest.World, *v1alpha1.AcmeOrder)
		approved bool
	}{
		{"nothing", func(*acmetest.World, *v1alpha1.AcmeOrder) {}, true},
		{"the account is revoked", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Change(w.Account, func() { w.Account.Spec.Decision = v1alpha1.AcmeDecisionRevoked })
		}, false},
		{"the external key is revoked", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Change(w.Key, func() { w.Key.Spec.Revoked = true })
		}, false},
		{"the external key does not preauthorize the name", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Change(w.Key, func() { w.Key.Spec.Preauthorized.DNS = []string{"*.other." + w.Namespace + ".example"} })
		}, false},
		{"the endpoint denies the name", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Change(w.Endpoint, func() { w.Endpoint.Spec.Identifiers.DNS.Deny = []string{w.Preauthorized("a")} })
		}, false},
		{"the profile has another signer", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Change(w.Endpoint, func() { w.Endpoint.Spec.Profiles[0].Signer.Name = "example.com/other" })
		}, false},
		{"the authorization has expired", func(w *acmetest.World, o *v1alpha1.AcmeOrder) {
			o.Status.Authorizations[0].Expires = &metav1.Time{Time: time.Now().Add(-time.Hour)}
			w.UpdateStatus(o)
		}, false},
		{"the order is invalid", func(w *acmetest.World, o *v1alpha1.AcmeOrder) {
			o.Status.State = v1alpha1.AcmeOrderInvalid
			w.UpdateStatus(o)
		}, false},
		{"the order has another certificate request", func(w *acmetest.World, o *v1alpha1.AcmeOrder) {
			o.Status.CSR = append(o.Status.CSR, 0)
			w.UpdateStatus(o)
		}, false},
		{"the right is gone", func(w *acmetest.World, _ *v1alpha1.AcmeOrder) {
			w.Disallow(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-autoapprove"}}, request.ServiceAccount(w.Namespace, acmetest.ServiceAccount),
				authorizationv1.ResourceAttributes{Verb: "autoapprove", Group: v1alpha1.GroupName, Resource: "acmeendpoints", Name: w.Namespace})
		}, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := acmetest.New(t, alone.Start(t))
			w.AutoApprove()
			o := w.Order(w.Preauthorized("a"))
			w.Finalize(o)
			profile := w.Endpoint.Spec.Profiles[0].DeepCopy()
			csr, err := acmeorder.SigningRequest(o, w.Account, profile, 12*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(w, o)
			who := request.ServiceAccount(w.Namespace, acmetest.ServiceAccount)
			answer := apitest.Create(t, apitest.Client(t, w.Server.As(t, who.Username, who.Groups...)), csr)
			if approved := len(answer.Status.Conditions) > 0; approved != tc.approved {
				t.Errorf("the answer has the conditions %+v", answer.Status.Conditions)
			}
		})
	}
}

// A certificate policy that denies comes first.
func TestPoliciesComeFirst(t *testing.T) {
	w := acmetest.New(t, shared.Start(t))
	w.AutoApprove()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyDenyRest, Match: v1alpha1.PolicyMatch{Signers: []string{w.SignerName}},
	}}
	w.Create(p)
	apitest.Eventually(t, "the policy is in force", func() bool {
		return w.Objects.Get(t.Context(), client.ObjectKeyFromObject(p), p) == nil && p.Status.ObservedGeneration == p.Generation
	})
	o := w.Order(w.Preauthorized("a"))
	w.Finalize(o)
	if o = w.Ended(o); o.Status.State != v1alpha1.AcmeOrderInvalid {
		t.Errorf("the order is %+v", o.Status)
	}
}
