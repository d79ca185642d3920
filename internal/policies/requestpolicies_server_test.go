package policies_test

import (
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/run/server"
)

// The issuers of these tests, and who requests from them.
const (
	ownIssuer = "own"
	requester = "alice"
)

var mayRequest = rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{cmv1.SchemeGroupVersion.Group}, Resources: []string{"certificaterequests"}}

// startRequestPolicies starts a server that enforces CertificateRequestPolicies,
// on which a user may make CertificateRequests.
func startRequestPolicies(t *testing.T, options ...func(*server.Config)) *fixture {
	f := start(t, append(options, func(c *server.Config) { c.Policy.CertificateRequestPolicies = true })...)
	f.server.Grant(t, requester, mayRequest)
	return f
}

// requestPolicy creates a policy that permits names in shop.example.com, for an
// issuer.
func (f *fixture) requestPolicy(name, issuer string) *approverpolicy.CertificateRequestPolicy {
	f.Helper()
	p := &approverpolicy.CertificateRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: approverpolicy.Spec{
		Allowed:  &approverpolicy.Allowed{DNSNames: &approverpolicy.AllowedValues{Values: &[]string{"*.shop.example.com"}}},
		Selector: approverpolicy.Selector{IssuerRef: &approverpolicy.IssuerSelector{Name: &issuer}},
	}}
	f.create(p)
	apitest.Eventually(f, "CertificateRequestPolicy "+name+" is ready", func() bool {
		return f.objects.Get(f.Context(), client.ObjectKeyFromObject(p), p) == nil && meta.IsStatusConditionTrue(p.Status.Conditions, "Ready")
	})
	return p
}

// mayUse lets the requester use a policy, for requests in one namespace.
func (f *fixture) mayUse(policy string) {
	f.Helper()
	f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "use-" + policy}, Rules: []rbacv1.PolicyRule{{
		Verbs: []string{"use"}, APIGroups: []string{approverpolicy.GroupName}, Resources: []string{approverpolicy.Resource}, ResourceNames: []string{policy},
	}}})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "use-" + policy},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "use-" + policy},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: requester}},
	})
	use := authorizationv1.ResourceAttributes{Namespace: "default", Verb: "use", Group: approverpolicy.GroupName, Resource: approverpolicy.Resource, Name: policy}
	f.server.UntilAllowed(f, requester, nil, use)
}

// request makes a CertificateRequest for a name, as the requester.
func (f *fixture) request(name, issuer, dnsName string) (*cmv1.CertificateRequest, error) {
	f.Helper()
	as, err := client.New(f.server.As(f, requester), client.Options{Scheme: f.objects.Scheme(), Mapper: f.objects.RESTMapper()})
	if err != nil {
		f.Fatal(err)
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{dnsName}}, apitest.NewKey(f))
	if err != nil {
		f.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: cmv1.CertificateRequestSpec{
		IssuerRef: cmmeta.IssuerReference{Kind: "ClusterIssuer", Name: issuer}, Request: csr,
	}}
	return cr, as.Create(f.Context(), cr)
}

func (f *fixture) requested(name, issuer, dnsName string) *cmv1.CertificateRequest {
	f.Helper()
	cr, err := f.request(name, issuer, dnsName)
	if err != nil {
		f.Fatal(err)
	}
	return cr
}

// requestHas waits for a condition of a CertificateRequest.
func (f *fixture) requestHas(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType) *cmv1.CertificateRequestCondition {
	f.Helper()
	apitest.Eventually(f, cr.Name+" is "+string(kind), func() bool {
		return f.objects.Get(f.Context(), client.ObjectKeyFromObject(cr), cr) == nil && api.RequestCondition(cr, kind) != nil
	})
	return api.RequestCondition(cr, kind)
}

// event waits for an Event about an object, and returns its text.
func (f *fixture) event(name, reason string) string {
	f.Helper()
	var text string
	apitest.Eventually(f, "the Event "+reason+" about "+name, func() bool {
		list := &eventsv1.EventList{}
		if err := f.objects.List(f.Context(), list); err != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason {
				text = e.Note
				return true
			}
		}
		return false
	})
	return text
}

// A policy that applies, and that its requester may use, approves what it
// permits; a request that no policy applies to is left alone until one does.
func TestRequestPolicyApproves(t *testing.T) {
	f := startRequestPolicies(t)
	f.requestPolicy("shop", ownIssuer)
	waiting := f.requested("waiting", ownIssuer, "www.shop.example.com")
	if text, want := f.event("waiting", "Unprocessed"), `Request is not applicable for any policy so ignoring: the nearest is "shop": access: user "alice" must be allowed to use certificaterequestpolicies.policy.cert-manager.io "shop" in namespace "default"`; text != want {
		t.Errorf("Event %q, want %q", text, want)
	}
	if err := f.objects.Get(t.Context(), client.ObjectKeyFromObject(waiting), waiting); err != nil || len(waiting.Status.Conditions) > 0 {
		t.Errorf("%+v, %v", waiting.Status.Conditions, err)
	}
	f.mayUse("shop")
	if c, want := f.requestHas(waiting, cmv1.CertificateRequestConditionApproved), `Approved by CertificateRequestPolicy: "shop"`; c.Reason != "policy.cert-manager.io" || c.Message != want {
		t.Errorf("approved with %s: %s", c.Reason, c.Message)
	}
	if text, want := f.event("waiting", "Approved"), `Approved by CertificateRequestPolicy: "shop"`; text != want {
		t.Errorf("Event %q, want %q", text, want)
	}
}

const refusal = `No policy approved this request: [shop: spec.allowed.dnsNames.values: Invalid value: ["www.example.org"]: *.shop.example.com]`

// What policies deny is refused when it is created, and denied if it came past
// that.
func TestRequestPolicyDenies(t *testing.T) {
	f := startRequestPolicies(t)
	f.requestPolicy("shop", ownIssuer)
	early := f.requested("early", ownIssuer, "www.example.org") // the requester may not use the policy yet
	f.mayUse("shop")
	if c := f.requestHas(early, cmv1.CertificateRequestConditionDenied); c.Reason != "policy.cert-manager.io" || c.Message != refusal {
		t.Errorf("denied with %s: %s", c.Reason, c.Message)
	}
	if text := f.event("early", "Denied"); text != refusal {
		t.Errorf("Event %q", text)
	}
	if _, err := f.request("late", ownIssuer, "www.example.org"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), refusal) {
		t.Errorf("created: %v", err)
	}
}

// CertificatePolicies hold beside CertificateRequestPolicies.
func TestBothPoliciesDecide(t *testing.T) {
	f := startRequestPolicies(t, func(c *server.Config) { c.Policy.CreateChecks = false })
	f.requestPolicy("shop", "*")
	f.mayUse("shop")
	for name, tc := range map[string]struct {
		reason  string
		change  func(*v1alpha1.CertificatePolicySpec)
		kind    cmv1.CertificateRequestConditionType
		by, why string
	}{
		"rest": {"a DenyRest denies what no other policy allows, and one does", func(s *v1alpha1.CertificatePolicySpec) {
			s.Effect, s.Certificate = v1alpha1.PolicyDenyRest, nil
		}, cmv1.CertificateRequestConditionApproved, "policy.cert-manager.io", `Approved by CertificateRequestPolicy: "shop"`},
		"limit": {"a Limit that does not hold", func(s *v1alpha1.CertificatePolicySpec) {
			s.Effect = v1alpha1.PolicyLimit
			s.Certificate = &v1alpha1.CertificateConditions{Names: &v1alpha1.NameConditions{DNS: &v1alpha1.DNSConditions{Zones: []string{"other.example.com"}}}}
		}, cmv1.CertificateRequestConditionDenied, "policy.certplane.dev", "is in none of the zones other.example.com"},
		"allow": {"an Allow policy that does not hold", func(s *v1alpha1.CertificatePolicySpec) {
		}, cmv1.CertificateRequestConditionApproved, "policy.cert-manager.io", `Approved by CertificateRequestPolicy: "shop"`},
		"people": {"a Limit that requires people", func(s *v1alpha1.CertificatePolicySpec) {
			s.Effect, s.Certificate = v1alpha1.PolicyLimit, nil
			s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2, From: []v1alpha1.PeopleFrom{{Groups: []string{"officers"}, Count: 2}}}}
		}, "certplane.dev/awaiting-approval", "ApprovalsMissing", "0 of 2 approvals"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := &fixture{t, f.server, f.objects, f.api}
			f.policy(name, func(s *v1alpha1.CertificatePolicySpec) {
				s.Match.Signers = []string{"clusterissuers.cert-manager.io/" + name}
				s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}
				tc.change(s)
			})
			cr := f.requested(name, name, "www.shop.example.com")
			if c := f.requestHas(cr, tc.kind); c.Reason != tc.by || !strings.Contains(c.Message, tc.why) {
				t.Errorf("%s with %s: %s", tc.kind, c.Reason, c.Message)
			}
		})
	}
}

// An approval that went past the approver and admission gets no certificate.
func TestSignerObeysRequestPolicies(t *testing.T) {
	f := startRequestPolicies(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-certificaterequests-approver")
		c.Admission.DisabledPlugins = []string{"CertificatePolicy"}
	})
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ownIssuer}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	f.requestPolicy("shop", ownIssuer)
	f.mayUse("shop")
	cr := f.requested("web", ownIssuer, "www.example.org")
	f.approveRequest(f.objects, cr)
	apitest.Eventually(t, "the request fails", func() bool {
		return f.objects.Get(t.Context(), client.ObjectKeyFromObject(cr), cr) == nil && api.ReadyReason(cr) == cmv1.CertificateRequestReasonFailed
	})
	if c := api.RequestCondition(cr, cmv1.CertificateRequestConditionReady); !strings.Contains(c.Message, refusal) {
		t.Errorf("failed with %s", c.Message)
	}
}

// The condition Ready is written as approver-policy writes it.
func TestRequestPolicyStatus(t *testing.T) {
	f := startRequestPolicies(t)
	p := f.requestPolicy("shop", ownIssuer)
	ready := meta.FindStatusCondition(p.Status.Conditions, "Ready")
	if ready.Reason != "Ready" || ready.Message != "CertificateRequestPolicy is ready for approval evaluation" || ready.ObservedGeneration != 1 {
		t.Errorf("%+v", ready)
	}
	var owners []string
	for _, m := range p.ManagedFields {
		if m.Subresource == "status" {
			owners = append(owners, m.Manager+" "+string(m.Operation))
		}
	}
	if len(owners) != 1 || owners[0] != "approver-policy Apply" {
		t.Errorf("the status is of %v", owners)
	}
}

// Policies that approver-policy's webhook refuses are refused in its words.
func TestRequestPolicyValidation(t *testing.T) {
	f := startRequestPolicies(t)
	err := f.objects.Create(t.Context(), &approverpolicy.CertificateRequestPolicy{ObjectMeta: metav1.ObjectMeta{Name: "none"}})
	if want := "spec.selector: Required value: one of issuerRef or namespace must be defined, hint: `{}` on either matches everything"; !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// Without the setting, the kind does not exist and nobody decides by it.
func TestRequestPoliciesAreOff(t *testing.T) {
	f := start(t)
	list := &approverpolicy.CertificateRequestPolicyList{}
	if err := f.objects.List(t.Context(), list); !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		t.Errorf("listing %s: %v", policies.RequestPoliciesResource.Resource, err)
	}
	f.server.Grant(t, requester, mayRequest)
	if c := f.requestHas(f.requested("web", ownIssuer, "www.example.org"), cmv1.CertificateRequestConditionApproved); c.Reason != "cert-manager.io" {
		t.Errorf("approved with %s", c.Reason)
	}
}
