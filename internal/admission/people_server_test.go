package admission_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const twoPeople = `{metadata: {name: four-eyes}, spec: {effect: Limit, match: {kinds: [CertificateSigningRequest, CertificateRequest], signers: [example.com/ca, issuers.cert-manager.io/*]},
  approval: {mode: People, people: {count: 2, from: [{groups: [officers], count: 1}, {groups: [security], count: 1}]}}}}`

// typesOf returns the types of a request's conditions.
func typesOf(r *csr) string {
	var types []string
	for _, c := range r.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return strings.Join(types, " ")
}

func (w *policyWorld) testPeople(t *testing.T) {
	w.apply(t, twoPeople)
	t.Run("four eyes", w.testFourEyes)
	t.Run("who does not count", w.testNotPeople)
	t.Run("denial", w.testDenial)
	t.Run("votes are the server's", w.testForgery)
	t.Run("server-side apply", w.testAppliedTwice)
}

// forCA stores a request of dave.
func (w *policyWorld) forCA(t *testing.T, name string) *csr {
	t.Helper()
	return apitest.Create(t, w.person(t, nil, "dave"), apitest.NewCSR(t, name, "example.com/ca", pki.Subject{CommonName: name}, apitest.NewKey(t)))
}

// approve does what kubectl does.
func approve(t *testing.T, client kubernetes.Interface, name string) (*csr, error) {
	t.Helper()
	requests := client.CertificatesV1().CertificateSigningRequests()
	stored, err := requests.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return requests.UpdateApproval(t.Context(), name, apitest.With(stored, "Approved"), noUpdate)
}

func (w *policyWorld) testFourEyes(t *testing.T) {
	stored := w.forCA(t, "four-eyes")
	var told toldWarnings
	alice := w.person(t, &told, "alice", "officers")
	if _, err := alice.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), dryRun); err != nil {
		t.Fatal(err)
	}
	w.wantUndecided(t, stored.Name)
	for range 2 { // the second time, the vote is there already
		first, err := approve(t, alice, stored.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := typesOf(first); got != "certplane.dev/awaiting-approval certplane.dev/approval-1" {
			t.Errorf("after the first person: %s", got)
		}
	}
	want := toldWarnings{
		"certificate policy four-eyes: recorded as approval 1 of 2; 1 more of security is needed",
		"certificate policy four-eyes: recorded as approval 1 of 2; 1 more of security is needed",
		"certificate policy four-eyes: you have approved already; 1 more of security is needed",
	}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("warnings are %q", told)
	}
	told = nil
	second, err := approve(t, w.person(t, &told, "bob", "security"), stored.Name)
	if err != nil {
		t.Fatal(err)
	}
	if got := typesOf(second); !strings.Contains(got, "Approved") || strings.Contains(got, "awaiting") || !strings.Contains(got, "approval-2") {
		t.Errorf("after the second person: %s", got)
	}
	for _, c := range second.Status.Conditions {
		if c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
			t.Errorf("%s has no time", c.Type)
		}
	}
}

func (w *policyWorld) testNotPeople(t *testing.T) {
	stored := w.forCA(t, "not-people")
	w.grantApproval(t, "system:node:n1")
	w.Grant(t, "boss", apitest.Allow("get", "certificatesigningrequests"), apitest.Allow("update", "certificatesigningrequests/approval"), apitest.Allow("approve", "signers"),
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users", "groups"}})
	as := func(name string, groups ...string) kubernetes.Interface {
		cfg := rest.CopyConfig(w.Login(t, "boss", "officers"))
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return apitest.Client(t, cfg)
	}
	for _, tc := range []struct {
		reason string
		client kubernetes.Interface
		want   metav1.CauseType
	}{
		{"the requester", w.person(t, nil, "dave", "officers"), "SelfApproval"},
		{"a service account", w.serviceAccount(t), "NotAPerson"},
		{"somebody else", w.person(t, nil, "carol", "curious"), "NotAmongApprovers"},
		{"a node", w.person(t, nil, "system:node:n1", "system:nodes", "officers"), "NotAPerson"},
		{"impersonated", as("alice", "officers"), "Impersonated"},
		{"oneself, with more groups", as("boss", "officers", "security"), "Impersonated"},
	} {
		_, err := approve(t, tc.client, stored.Name)
		if causes := causesOf(t, err); len(causes) != 1 || causes[0].Type != tc.want {
			t.Errorf("%s: %+v: %v", tc.reason, causes, err)
		}
	}
	w.wantUndecided(t, stored.Name)
}

// serviceAccount returns a client of a service account that may approve.
func (w *policyWorld) serviceAccount(t *testing.T) kubernetes.Interface {
	t.Helper()
	w.grantApproval(t, "system:serviceaccount:default:robot")
	accounts := w.admin.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := w.Anonymous(t)
	cfg.BearerToken = token.Status.Token
	return apitest.Client(t, cfg)
}

func (w *policyWorld) testDenial(t *testing.T) {
	w.forCA(t, "denied")
	voted, err := approve(t, w.person(t, nil, "alice", "officers"), "denied")
	if err != nil {
		t.Fatal(err)
	}
	denied := apitest.Decide(t, w.person(t, nil, "carol"), voted, "Denied")
	if got := typesOf(denied); got != "certplane.dev/approval-1 Denied" {
		t.Errorf("after the denial: %s", got)
	}
	if _, err := approve(t, w.person(t, nil, "bob", "security"), "denied"); err == nil {
		t.Error("a denied request was approved")
	}
}

// testForgery: whoever may write the request cannot write votes.
func (w *policyWorld) testForgery(t *testing.T) {
	w.forCA(t, "forged")
	voted, err := approve(t, w.person(t, nil, "alice", "officers"), "forged")
	if err != nil {
		t.Fatal(err)
	}
	before := w.get(t, "forged").Status.Conditions
	client := w.person(t, nil, "carol").CertificatesV1().CertificateSigningRequests()
	copied := before[0]
	for _, c := range before {
		if strings.HasPrefix(string(c.Type), "certplane.dev/approval-") {
			copied = c
		}
	}
	copied.Type = "certplane.dev/approval-2"
	with := func(change func(*csr)) *csr {
		changed := voted.DeepCopy()
		changed.ResourceVersion = ""
		change(changed)
		return changed
	}
	changes := map[string]*csr{
		"added":   with(func(c *csr) { c.Status.Conditions = append(c.Status.Conditions, copied) }),
		"removed": with(func(c *csr) { c.Status.Conditions = nil }),
		"changed": with(func(c *csr) {
			for i := range c.Status.Conditions {
				c.Status.Conditions[i].Message = "forged"
			}
		}),
	}
	for what, changed := range changes {
		for way, write := range map[string]func() (*csr, error){
			"approval":          func() (*csr, error) { return client.UpdateApproval(t.Context(), "forged", changed, noUpdate) },
			"status":            func() (*csr, error) { return client.UpdateStatus(t.Context(), changed, noUpdate) },
			"the main resource": func() (*csr, error) { return client.Update(t.Context(), changed, noUpdate) },
		} {
			if _, err := write(); err != nil {
				t.Errorf("%s through %s: %v", what, way, err)
			}
			after := w.get(t, "forged").Status.Conditions
			if fmt.Sprint(sorted(after)) != fmt.Sprint(sorted(before)) {
				t.Errorf("%s through %s: the conditions are\n%v\nwere\n%v", what, way, after, before)
			}
		}
	}
	t.Run("added to a request without conditions", func(t *testing.T) {
		fresh := w.forCA(t, "forged-first")
		fresh.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{copied}
		if _, err := client.UpdateStatus(t.Context(), fresh, noUpdate); err != nil {
			t.Error(err)
		}
		w.wantUndecided(t, fresh.Name)
	})
	t.Run("approved through status", func(t *testing.T) {
		if _, err := client.UpdateStatus(t.Context(), apitest.With(with(func(*csr) {}), "Approved"), noUpdate); !apierrors.IsInvalid(err) {
			t.Errorf("got %v, want 422", err)
		}
	})
}

// sorted returns what the conditions say by their types.
func sorted(conditions []certificatesv1.CertificateSigningRequestCondition) map[certificatesv1.RequestConditionType]string {
	said := map[certificatesv1.RequestConditionType]string{}
	for _, c := range conditions {
		said[c.Type] = c.Reason + " " + c.Message + c.LastTransitionTime.String()
	}
	return said
}

// testAppliedTwice: an approval that became a vote is nobody's field, so that
// the next person can apply it.
func (w *policyWorld) testAppliedTwice(t *testing.T) {
	w.forCA(t, "applied")
	patch := []byte(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"applied"},"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test","message":"x"}]}}`)
	for _, who := range []struct{ user, group, says string }{{"alice", "officers", "x"}, {"alice", "officers", "x"}, {"bob", "security", "y"}} {
		sent := []byte(strings.Replace(string(patch), `"x"`, `"`+who.says+`"`, 1))
		_, err := w.person(t, nil, who.user, who.group).CertificatesV1().CertificateSigningRequests().
			Patch(t.Context(), "applied", types.ApplyPatchType, sent, metav1.PatchOptions{FieldManager: who.user}, "approval")
		if err != nil {
			t.Fatalf("%s: %v", who.user, err)
		}
	}
	if got := typesOf(w.get(t, "applied")); !strings.Contains(got, "Approved") {
		t.Errorf("the conditions are %s", got)
	}
}

func (w *policyWorld) testCertificateRequests(t *testing.T) {
	cr := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "CertificateRequest", "metadata": map[string]any{"name": "cr", "namespace": "default"},
		"spec": map[string]any{"issuerRef": map[string]any{"name": "ca"}},
	}}
	request, err := pki.NewRequest(pki.Subject{CommonName: "cr", DNSNames: []string{"cr.example.com"}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(cr.Object, base64.StdEncoding.EncodeToString(request), "spec", "request"); err != nil {
		t.Fatal(err)
	}
	requests := func(cfg *rest.Config) dynamic.ResourceInterface {
		client, err := dynamic.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return client.Resource(cmv1.SchemeGroupVersion.WithResource("certificaterequests")).Namespace("default")
	}
	stored, err := requests(w.Admin(t)).Create(t.Context(), cr, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	update := ofGroup("cert-manager.io", "get update", "certificaterequests certificaterequests/status")
	w.Grant(t, "erin", update, ofGroup("cert-manager.io", "approve", "signers", "issuers.cert-manager.io/default.ca"))
	w.Grant(t, "frank", update, ofGroup("cert-manager.io", "approve", "signers", "issuers.cert-manager.io/*"))
	w.Grant(t, "grace", update)
	decide := func(cfg *rest.Config) (*unstructured.Unstructured, error) {
		changed, err := requests(w.Admin(t)).Get(t.Context(), stored.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(changed.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{"type": "Approved", "status": "True", "reason": "Test", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"})
		if err := unstructured.SetNestedSlice(changed.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
		return requests(cfg).UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
	}
	if _, err := decide(w.Login(t, "grace", "officers")); !apierrors.IsForbidden(err) {
		t.Errorf("without the right: %v", err)
	}
	var told toldWarnings
	officer := w.Login(t, "erin", "officers")
	officer.WarningHandler = &told
	voted, err := decide(officer)
	if err != nil {
		t.Fatal(err)
	}
	if got := looseTypes(voted); strings.Contains(got, "Approved") || !strings.Contains(got, "approval-1") || !strings.Contains(got, "awaiting") {
		t.Errorf("after the first person: %s", got)
	}
	if len(told) != 1 || !strings.Contains(told[0], "recorded as approval 1 of 2") {
		t.Errorf("warnings are %q", told)
	}
	unstructured.RemoveNestedField(voted.Object, "status", "conditions")
	kept, err := requests(officer).UpdateStatus(t.Context(), voted, metav1.UpdateOptions{})
	if err != nil || !strings.Contains(looseTypes(kept), "approval-1") {
		t.Errorf("the vote was removed, or %v", err)
	}
	done, err := decide(w.Login(t, "frank", "security"))
	if err != nil {
		t.Fatal(err)
	}
	if got := looseTypes(done); !strings.Contains(got, "Approved") || !strings.Contains(got, "approval-2") || strings.Contains(got, "awaiting") {
		t.Errorf("after the second person: %s", got)
	}
}

func looseTypes(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var types []string
	for _, c := range conditions {
		types = append(types, fmt.Sprint(c.(map[string]any)["type"]))
	}
	return strings.Join(types, " ")
}
