package policies_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/run/server"
)

// annotate has somebody write why a policy is overridden.
func annotate(ctx context.Context, by *voter, subresource, name, why string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.AnnotationOverride: why}}})
	if err != nil {
		return err
	}
	into := by.client.CertificatesV1().RESTClient().Patch(types.MergePatchType).Resource("certificatesigningrequests").Name(name)
	if subresource != "" {
		into = into.SubResource(subresource)
	}
	return into.Body(data).Do(ctx).Error()
}

// mayOverride gives users the right to override policies, besides that to approve.
func (e *electorate) mayOverride(policy string, users ...string) {
	e.Helper()
	name := metav1.ObjectMeta{Name: "overrides-" + policy}
	right := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"certificatepolicies"}, Verbs: []string{"override"}, ResourceNames: []string{policy}}
	e.create(&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{right}})
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name}}
	for _, user := range users {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", Name: user})
	}
	e.create(binding)
	override := authorizationv1.ResourceAttributes{Verb: "override", Group: v1alpha1.GroupName, Resource: "certificatepolicies", Name: policy}
	for _, user := range users {
		e.server.UntilAllowed(e, user, nil, override)
	}
}

// overridable is a requirement that one person may override.
func overridable(count int32, from ...string) v1alpha1.PeopleRequirement {
	people := requirement(count, from...)
	people.Override = v1alpha1.OverrideAllowed
	return people
}

// peoplePolicy returns the change of a policy to a Limit that requires people.
func peoplePolicy(override v1alpha1.PeopleOverride, people v1alpha1.PeopleRequirement) func(*v1alpha1.CertificatePolicySpec) {
	people.Override = override
	return func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate = v1alpha1.PolicyLimit, nil
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &people}
	}
}

// One person with the right to it approves in the place of all others, and says
// why: it is on the request, in Events, metrics and the record.
func TestOverride(t *testing.T) {
	e := electorateOf(startAlone(t))
	grace, alice, requester := e.person(true, "grace"), e.person(true, "alice", "pki"), e.person(true, "heinz")
	grace2 := e.person(true, "grace", "pki")
	impersonated := &voter{name: "grace", client: e.client(e.server.As(t, "grace"))}
	e.mayOverride("four-eyes", "grace", "heinz")
	e.policy("four-eyes", peoplePolicy(v1alpha1.OverrideAllowed, requirement(2, "1 of pki", "1 of security")))

	create := func(name string) error {
		csr := apitest.NewCSR(t, name, signerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
		if strings.HasSuffix(name, "annotated") {
			csr.Annotations = map[string]string{v1alpha1.AnnotationOverride: "please"}
		}
		_, err := requester.client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
		return err
	}
	if err := create("web-annotated"); !apierrors.IsForbidden(err) {
		t.Errorf("the requester says why at creation: %v", err)
	}
	if err := create("web-1"); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "grace may override", func() bool { return annotate(t.Context(), grace, "", "web-1", "the others are on a plane") == nil })
	if err := annotate(t.Context(), grace, "", "web-1", ""); err != nil {
		t.Fatal(err)
	}
	for _, subresource := range []string{"", "approval", "status"} {
		for _, by := range []*voter{alice, requester, impersonated} {
			if err := annotate(t.Context(), by, subresource, "web-1", "mine"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), v1alpha1.AnnotationOverride) {
				t.Errorf("%s says why in /%s: %v", by.name, subresource, err)
			}
		}
	}
	read := func() *csr {
		r, err := e.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "web-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if _, err := put(t.Context(), grace, "approval", with(read(), approval(grace)), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an approval without a reason: %v", err)
	}
	if err := annotate(t.Context(), grace, "", "web-1", "the others are on a plane"); err != nil {
		t.Fatal(err)
	}
	// The annotation gives nobody else the right.
	if _, err := put(t.Context(), alice, "approval", with(read(), approval(alice)), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if has(read().Status.Conditions, "Approved") {
		t.Fatal("alice has overridden the policy")
	}
	if _, err := put(t.Context(), impersonated, "approval", with(read(), approval(impersonated)), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody overrides as grace: %v", err)
	}
	if _, err := put(t.Context(), grace2, "approval", with(read(), approval(grace2)), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Issued(t, e.api, read())
	const text = `grace of pki overrode four-eyes, because: "the others are on a plane"`
	if votes := fmt.Sprint(ofVotes(read().Status.Conditions)); !strings.Contains(votes, text) {
		t.Errorf("the votes are %s", votes)
	}
	const said = text + `; "approved by grace"`
	for about, want := range map[string]string{"web-1": said, "four-eyes": "CertificateSigningRequest web-1: " + said} {
		if got := e.event(about, "PolicyOverridden"); got != want {
			t.Errorf("the Event about %s says %s", about, got)
		}
	}
	metrics, err := e.api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := `certplane_policy_overrides_total{policy="four-eyes"} 1`; !strings.Contains(string(metrics), want) {
		t.Errorf("there is no %s", want)
	}
}

// An override is of policies that still permit it, and of no other; the same
// write can say why.
func TestOverrideOfOnePolicy(t *testing.T) {
	e := startElectorate(t)
	grace, alice, bob := e.person(true, "grace"), e.person(true, "alice", "pki"), e.person(true, "bob", "pki")
	e.mayOverride("allowed", "grace")
	e.policy("allowed", peoplePolicy(v1alpha1.OverrideAllowed, requirement(3)))
	e.policy("strict", peoplePolicy(v1alpha1.OverrideForbidden, requirement(2, "2 of pki")))
	r := e.csr("web-1")
	if c := fmt.Sprint(e.approve(grace, r.Name, "an outage").Status.Conditions); !strings.Contains(c, "0 of 2 approvals: 2 more of pki") || !strings.Contains(c, `grace overrode allowed, because: "an outage"`) {
		t.Errorf("after the override: %s", c)
	}
	e.approve(alice, r.Name, "")
	if stored := e.approve(bob, r.Name, ""); !has(stored.Status.Conditions, "Approved") {
		t.Errorf("all that is required is there: %s", short(stored.Status.Conditions))
	}
	apitest.Issued(t, e.api, r)
}

// An override counts only while the policy permits it.
func TestOverrideEnds(t *testing.T) {
	e := startElectorate(t)
	grace, alice, bob := e.person(true, "grace"), e.person(true, "alice", "pki"), e.person(true, "bob", "pki")
	e.mayOverride("allowed", "grace")
	p := e.policy("allowed", peoplePolicy(v1alpha1.OverrideAllowed, requirement(2, "2 of security")))
	e.policy("strict", peoplePolicy(v1alpha1.OverrideForbidden, requirement(2, "2 of pki")))
	r := e.csr("web-1")
	e.approve(grace, r.Name, "an outage")
	current := &v1alpha1.CertificatePolicy{}
	if err := e.objects.Get(t.Context(), client.ObjectKeyFromObject(p), current); err != nil {
		t.Fatal(err)
	}
	current.Spec.Approval.People.Override = v1alpha1.OverrideForbidden
	if err := e.objects.Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	e.ready(current)
	e.approve(alice, r.Name, "")
	stored := e.approve(bob, r.Name, "")
	if c := fmt.Sprint(stored.Status.Conditions); has(stored.Status.Conditions, "Approved") || !strings.Contains(c, "0 of 2 approvals: 2 more of security") {
		t.Errorf("with an override that is not permitted any more: %s", short(stored.Status.Conditions))
	}
}

// A policy that changes between the approval and the signature decides again at the
// signature: the override counts as long as the policy permits it.
func TestOverrideBeforeSigning(t *testing.T) {
	e := startElectorate(t, func(c *server.Config) { c.Controllers = []string{"*", "-sign"} })
	grace := e.person(true, "grace")
	change := func(p *v1alpha1.CertificatePolicy, how func(*v1alpha1.PeopleRequirement)) {
		t.Helper()
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the status is written, too
			if err := e.objects.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			how(p.Spec.Approval.People)
			return e.objects.Update(t.Context(), p)
		})
		if err != nil {
			t.Fatal(err)
		}
		e.ready(p)
	}
	requests := map[string]*csr{}
	policies := map[string]*v1alpha1.CertificatePolicy{}
	for _, name := range []string{"web-stricter", "web-forbidden"} {
		e.mayOverride(name, "grace")
		policies[name] = e.policy(name, func(s *v1alpha1.CertificatePolicySpec) {
			peoplePolicy(v1alpha1.OverrideAllowed, requirement(2, "2 of security"))(s)
			s.Match.Conditions = []v1alpha1.MatchCondition{{Name: "name", Expression: v1alpha1.CEL("request.subject.commonName == '" + name + "'")}}
		})
		requests[name] = e.csr(name)
		if stored := e.approve(grace, name, "an outage"); !has(stored.Status.Conditions, "Approved") {
			t.Fatalf("after the override: %s", short(stored.Status.Conditions))
		}
	}
	change(policies["web-stricter"], func(p *v1alpha1.PeopleRequirement) { p.Count = 3 })
	change(policies["web-forbidden"], func(p *v1alpha1.PeopleRequirement) { p.Override = v1alpha1.OverrideForbidden })
	e.server.Config.Controllers = []string{"*"}
	e.restart()
	e.api = apitest.Client(t, e.server.Admin(t))
	apitest.Issued(t, e.api, requests["web-stricter"])
	c := e.condition(requests["web-forbidden"], certificatesv1.CertificateFailed)
	if want := "approved past certificate policy web-forbidden: 0 of 2 approvals: 2 more of security; make another request"; c.Reason != "ApprovalsMissing" || c.Message != want {
		t.Errorf("failed with %s: %s", c.Reason, c.Message)
	}
}

// approve approves a request, also after a conflict; with why, in the same write.
func (e *electorate) approve(by *voter, name, why string) (stored *csr) {
	e.Helper()
	apitest.Eventually(e, by.name+" approves", func() bool {
		read, err := e.api.CertificatesV1().CertificateSigningRequests().Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		if why != "" {
			read.Annotations = map[string]string{v1alpha1.AnnotationOverride: why}
		}
		stored, err = put(e.Context(), by, "approval", with(read, approval(by)), metav1.UpdateOptions{})
		return err == nil
	})
	return stored
}

// A CertificateRequest says why before it is approved, as its status has no
// annotations.
func TestOverrideOfCertificateRequest(t *testing.T) {
	f := start(t)
	f.create(&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: ownIssuer}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}})
	people := requirement(2, "2 of pki")
	people.Override = v1alpha1.OverrideAllowed
	f.policy("two", func(s *v1alpha1.CertificatePolicySpec) {
		s.Effect, s.Certificate, s.Match.Signers = v1alpha1.PolicyLimit, nil, []string{"clusterissuers.cert-manager.io/*"}
		s.Match.Kinds = []v1alpha1.RequestKind{v1alpha1.CertificateRequests}
		s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &people}
	})
	f.server.Grant(t, "grace",
		rbacv1.PolicyRule{APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests", "certificaterequests/status"}, Verbs: []string{"get", "patch", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"}},
		rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"certificatepolicies"}, Verbs: []string{"override"}})
	grace, err := client.New(f.server.Login(t, "grace"), client.Options{Scheme: f.objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	f.server.Grant(t, requester, mayRequest)
	cr := f.requested("web", ownIssuer, "www.shop.example.com")
	f.requestHas(cr, cmv1.CertificateRequestConditionType(quorum.AwaitingApproval)) // the approver has begun
	apitest.Eventually(t, "grace says why", func() bool {
		patch := client.MergeFrom(cr.DeepCopy())
		cr.Annotations = map[string]string{v1alpha1.AnnotationOverride: "an outage"}
		return grace.Patch(t.Context(), cr, patch) == nil
	})
	apitest.Eventually(t, "grace approves", func() bool {
		if err := grace.Get(t.Context(), client.ObjectKeyFromObject(cr), cr); err != nil {
			return false
		}
		api.SetRequestCondition(cr, cmv1.CertificateRequestConditionApproved, cmmeta.ConditionTrue, "Person", "approved", metav1.Now())
		return grace.Status().Update(t.Context(), cr) == nil
	})
	if c := f.requestHas(cr, cmv1.CertificateRequestConditionApproved); c.Reason != "Person" {
		t.Errorf("approved with %+v", c)
	}
	for about, want := range map[string]string{
		"web": `grace overrode two, because: "an outage"; "approved"`, "two": `CertificateRequest default/web: grace overrode two, because: "an outage"; "approved"`,
	} {
		if got := f.event(about, "PolicyOverridden"); got != want {
			t.Errorf("the Event about %s says %s", about, got)
		}
	}
}
