package admission_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const policySigner = "example.com/internal"

// policyWorld is a server with policies.
type policyWorld struct {
	*testing.T
	*apitest.Server
	admin   kubernetes.Interface
	objects client.Client
}

func newPolicyWorld(t *testing.T) policyWorld {
	t.Helper()
	server := apitest.Start(t)
	kinds := newPolicyScheme(t)
	objects, err := client.New(server.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return policyWorld{t, server, apitest.Client(t, server.Admin(t)), objects}
}

func newPolicy(name string, effect v1alpha1.PolicyEffect) *v1alpha1.CertificatePolicy {
	return &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: effect,
		Match:  v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{policySigner}},
		Certificate: &v1alpha1.CertificateConditions{
			Subject: &v1alpha1.SubjectConditions{CommonName: &v1alpha1.CommonName{Text: v1alpha1.Text{Patterns: []string{"web-*"}}}},
			Usages:  &v1alpha1.UsageConditions{Allowed: []string{"digital signature", "key encipherment", "client auth"}},
		},
	}}
}

// enforce creates a policy and waits until it is in force.
func (w policyWorld) enforce(p *v1alpha1.CertificatePolicy) {
	w.Helper()
	if err := w.objects.Create(w.Context(), p); err != nil {
		w.Fatal(err)
	}
	apitest.Eventually(w, "policy "+p.Name+" is in force", func() bool {
		current := &v1alpha1.CertificatePolicy{}
		return w.objects.Get(w.Context(), client.ObjectKeyFromObject(p), current) == nil && current.Status.ObservedGeneration == p.Generation
	})
}

func (w policyWorld) request(name, commonName string) *certificatesv1.CertificateSigningRequest {
	w.Helper()
	return apitest.NewCSR(w, name, policySigner, pki.Subject{CommonName: commonName}, apitest.NewKey(w))
}

// warned collects the warnings of a client.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (c *warned) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, text)
}

func (c *warned) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.Join(c.texts, "\n")
	c.texts = nil
	return text
}

// approver returns a client of a user who may approve for all signers.
func (w policyWorld) approver(name string, groups ...string) (kubernetes.Interface, *warned) {
	w.Helper()
	w.Grant(w, name, apitest.Allow("create get list update patch", "certificatesigningrequests"),
		apitest.Allow("update patch", "certificatesigningrequests/approval certificatesigningrequests/status"), apitest.Allow("approve sign", "signers"))
	as := rest.CopyConfig(w.Login(w, name, groups...))
	heard := &warned{}
	as.WarningHandlerWithContext = heard
	return apitest.Client(w, as), heard
}

func (w policyWorld) approve(by kubernetes.Interface, name string) error {
	w.Helper()
	csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	_, err = by.CertificatesV1().CertificateSigningRequests().UpdateApproval(w.Context(), name, apitest.With(csr, "Approved"), metav1.UpdateOptions{})
	return err
}

func (w policyWorld) conditions(name string) map[string]string {
	w.Helper()
	csr, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	messages := map[string]string{}
	for _, c := range csr.Status.Conditions {
		messages[string(c.Type)] = c.Message
	}
	return messages
}

func TestPolicyAtCreation(t *testing.T) {
	w := newPolicyWorld(t)
	w.enforce(newPolicy("web", v1alpha1.PolicyLimit))
	for _, options := range []metav1.CreateOptions{{}, {DryRun: []string{metav1.DryRunAll}}} {
		_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), w.request("db", "db-1"), options)
		const want = `certificate policy web: subject.commonName "db-1" matches none of the patterns web-*`
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v", err)
		}
		causes := err.(apierrors.APIStatus).Status().Details.Causes
		if len(causes) != 1 || causes[0].Type != "SubjectNotPermitted" || causes[0].Field != "spec.request" {
			t.Errorf("%+v", causes)
		}
	}
	apitest.Create(t, w.admin, w.request("web", "web-1"))
}

// Whoever may approve cannot approve what policies forbid, in whatever way.
func TestPolicyAtApproval(t *testing.T) {
	w := newPolicyWorld(t)
	apitest.Create(t, w.admin, w.request("db", "db-1"))
	p := newPolicy("web", v1alpha1.PolicyLimit)
	w.enforce(p)
	by, _ := w.approver("alice")
	const want = `certificate policy web: subject.commonName "db-1" matches none of the patterns web-*`
	approved := []map[string]any{{"type": "Approved", "status": "True", "reason": "Mine", "message": ""}}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": approved}})
	if err != nil {
		t.Fatal(err)
	}
	applied, err := json.Marshal(map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": "db"},
		"status": map[string]any{"conditions": approved},
	})
	if err != nil {
		t.Fatal(err)
	}
	requests, force := by.CertificatesV1().CertificateSigningRequests(), true
	for name, try := range map[string]func() error{
		"update": func() error { return w.approve(by, "db") },
		"merge patch": func() error {
			_, err := requests.Patch(t.Context(), "db", types.MergePatchType, patch, metav1.PatchOptions{}, "approval")
			return err
		},
		"server-side apply": func() error {
			_, err := requests.Patch(t.Context(), "db", types.ApplyPatchType, applied, metav1.PatchOptions{FieldManager: "x", Force: &force}, "approval")
			return err
		},
		"v1beta1": func() error {
			return by.CertificatesV1beta1().RESTClient().Patch(types.MergePatchType).Resource("certificatesigningrequests").Name("db").
				SubResource("approval").Body(patch).Do(t.Context()).Error()
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFourEyes: each of two people approves as always; the first approval
// becomes a vote.
func TestFourEyes(t *testing.T) {
	w := newPolicyWorld(t)
	p := newPolicy("two", v1alpha1.PolicyLimit)
	p.Spec.Certificate = nil
	p.Spec.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{
		Count: 2, From: []v1alpha1.PeopleFrom{{Groups: []string{"pki"}, Count: 1}, {Groups: []string{"security"}, Count: 1}},
	}}
	w.enforce(p)
	requester, _ := w.approver("carol", "pki")
	if _, err := requester.CertificatesV1().CertificateSigningRequests().Create(t.Context(), w.request("ca", "ca"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	alice, heard := w.approver("alice", "pki")
	bob, _ := w.approver("bob", "security")
	dave, _ := w.approver("dave", "other")

	for name, tc := range map[string]struct {
		by   kubernetes.Interface
		want string
	}{
		"the requester":  {requester, "nobody approves their own request"},
		"of other group": {dave, "you are in none of the groups pki, security"},
	} {
		if err := w.approve(tc.by, "ca"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	as := rest.CopyConfig(w.Admin(t))
	as.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"pki", "system:authenticated"}}
	if err := w.approve(apitest.Client(t, as), "ca"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "impersonates alice") {
		t.Errorf("impersonated: %v", err)
	}
	for kind := range w.conditions("ca") {
		if strings.HasPrefix(kind, "certplane.dev/approval-") || kind == "Approved" {
			t.Errorf("condition %s is stored", kind)
		}
	}

	if err := w.approve(alice, "ca"); err != nil {
		t.Fatal(err)
	}
	if got := heard.take(); got != "certificate policy two: recorded as approval 1 of 2; 1 more of security is needed" {
		t.Errorf("warning %q", got)
	}
	if has := w.conditions("ca"); has["Approved"] != "" || !strings.HasPrefix(has["certplane.dev/approval-1"], "alice of pki approved, 1 of 2 (sealed v1.") {
		t.Errorf("%v", has)
	}
	if err := w.approve(alice, "ca"); err != nil {
		t.Fatal(err)
	}
	if got := heard.take(); got != "certificate policy two: you have approved already; 1 more of security is needed" {
		t.Errorf("warning %q", got)
	}
	w.keepsVotes(alice)
	if err := w.approve(bob, "ca"); err != nil {
		t.Fatal(err)
	}
	has := w.conditions("ca")
	if _, approved := has["Approved"]; !approved || has["certplane.dev/awaiting-approval"] != "" {
		t.Errorf("%v", has)
	}
}

// keepsVotes: clients can neither add nor change nor remove votes.
func (w policyWorld) keepsVotes(by kubernetes.Interface) {
	w.Helper()
	before := w.conditions("ca")
	for _, subresource := range []string{"", "status", "approval"} {
		for _, conditions := range []string{
			`[]`, `[{"type":"certplane.dev/approval-1","status":"True","reason":"Approved","message":"x"}]`,
			`[{"type":"certplane.dev/approval-2","status":"True","reason":"Approved","message":"x"}]`,
		} {
			var parts []string
			if subresource != "" {
				parts = []string{subresource}
			}
			_, _ = by.CertificatesV1().CertificateSigningRequests().Patch(w.Context(), "ca", types.MergePatchType,
				[]byte(`{"status":{"conditions":`+conditions+`}}`), metav1.PatchOptions{}, parts...)
			after := w.conditions("ca")
			if len(after) != len(before) || after["certplane.dev/approval-1"] != before["certplane.dev/approval-1"] {
				w.Errorf("%s in %q: %v became %v", conditions, subresource, before, after)
			}
		}
	}
}

// Who may write policies cannot approve by them what they may not approve.
func TestPolicyEscalation(t *testing.T) {
	w := newPolicyWorld(t)
	writes := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"certificatepolicies", "certificatepolicyexceptions"}, Verbs: []string{"create"}}
	w.Grant(t, "author", writes)
	author := w.client("author")
	err := author.Create(t.Context(), newPolicy("web", v1alpha1.PolicyAllow))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `this needs the verb approve on signers "example.com/internal"`) {
		t.Errorf("%v", err)
	}
	shadow := newPolicy("web", v1alpha1.PolicyAllow)
	shadow.Spec.Mode = v1alpha1.PolicyShadow
	if err := author.Create(t.Context(), shadow); err != nil {
		t.Error(err)
	}
	x := &v1alpha1.CertificatePolicyException{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.CertificatePolicyExceptionSpec{
		Policies: []string{"web"}, Items: []string{"certificate.subject.commonName"}, Reason: "test", NotAfter: metav1.NewTime(time.Now().Add(time.Hour)),
		Match: v1alpha1.PolicyMatch{Signers: []string{policySigner}, Requesters: &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: []string{"alice"}}}},
	}}
	if err := author.Create(t.Context(), x); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `this needs the verb except on certificatepolicies "web"`) {
		t.Errorf("%v", err)
	}
	w.Grant(t, "approver", writes, apitest.Allow("approve", "signers", policySigner))
	if err := w.client("approver").Create(t.Context(), newPolicy("allowed", v1alpha1.PolicyAllow)); err != nil {
		t.Error(err)
	}
	broken := newPolicy("broken", v1alpha1.PolicyAllow)
	broken.Spec.Certificate.Usages = nil
	if err := w.objects.Create(t.Context(), broken); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.certificate.usages: Required value") {
		t.Errorf("%v", err)
	}
}

// client returns a client of a user for all kinds.
func (w policyWorld) client(user string) client.Client {
	w.Helper()
	as, err := client.New(w.Login(w, user), client.Options{Scheme: newPolicyScheme(w.T)})
	if err != nil {
		w.Fatal(err)
	}
	return as
}

func newPolicyScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	return kinds
}
