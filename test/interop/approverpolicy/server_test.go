package approverpolicy

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"slices"
	"testing"

	policyv1alpha1 "github.com/cert-manager/approver-policy/pkg/apis/policy/v1alpha1"
	oracle "github.com/cert-manager/approver-policy/pkg/certplaneoracle"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/policy/crp"
	certplane "github.com/certplane/certplane/internal/run/server"
)

// The controllers of approver-policy run against a certplane server: what they
// write is what certplane would write.
func TestServer(t *testing.T) {
	w := newWorld(t)
	w.startControllers()
	var policies []*crp.Policy
	for _, declared := range serverPolicies {
		policies = append(policies, w.policy(declared.DeepCopy()))
	}
	for _, tc := range []struct {
		issuer  string
		outcome v1alpha1.DecisionOutcome
	}{{"ca", v1alpha1.OutcomeApprove}, {"ca-2", v1alpha1.OutcomeDeny}, {"ca-3", v1alpha1.OutcomeLeave}} {
		cr := w.request(tc.issuer)
		event := w.event(cr.Name)
		w.get(cr)
		want, err := crp.Decide(policies, cr, crp.Facts{
			NamespaceLabels: func() (map[string]string, error) { return nil, nil },
			MayUse:          func(name string) (bool, error) { return name != "unused", nil },
		})
		if err != nil || want.Outcome != tc.outcome {
			t.Fatalf("%s: %+v, %v", tc.issuer, want, err)
		}
		if want.Nearest != nil {
			// certplane says more, on purpose.
			want.Event.Message = "Request is not applicable for any policy so ignoring"
		}
		if got := (crp.Event{Type: event.Type, Reason: event.Reason, Action: event.Action, Message: event.Note}); got != want.Event {
			t.Errorf("%s: event %+v, want %+v", tc.issuer, got, want.Event)
		}
		compareConditions(t, cr, want)
	}
	if diff := cmp.Diff(w.table(), ownTable(t)); diff != "" {
		t.Errorf("kubectl get certificaterequestpolicies shows something else where certplane evaluates them: %s", diff)
	}
}

var serverPolicies = []*policy{
	forIssuer("permits", "ca", `{allowed: {dnsNames: {values: ["*"]}}}`),
	forIssuer("refuses", "ca-2", `{allowed: {dnsNames: {values: [x]}}, constraints: {maxDuration: 1h}}`),
	forIssuer("refuses-2", "ca-2", `{}`),
	forIssuer("unused", "ca-3", `{}`),
}

// ownTable returns what kubectl shows of the policies where certplane itself
// evaluates them.
func ownTable(t *testing.T) string {
	s := apitest.Start(t, func(cfg *certplane.Config) { cfg.Policy.CertificateRequestPolicies = true })
	api, err := client.New(s.Admin(t), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, s, api}
	for _, declared := range serverPolicies {
		w.policy(declared.DeepCopy())
	}
	return w.table()
}

var ages = regexp.MustCompile(`\b[0-9]+s\b`)

// table returns what kubectl shows of the policies, without their ages.
func (w *world) table() string {
	w.t.Helper()
	return ages.ReplaceAllString(apitest.Table(w.t, w.server.Admin(w.t), "/apis/"+approverpolicy.GroupVersion.String()+"/"+approverpolicy.Resource), "age")
}

func compareConditions(t *testing.T, cr *cmv1.CertificateRequest, want crp.Decision) {
	t.Helper()
	var wanted []cmv1.CertificateRequestCondition
	if of := want.Condition(); of != "" {
		wanted = append(wanted, cmv1.CertificateRequestCondition{Type: of, Status: cmmeta.ConditionTrue, Reason: crp.Reason, Message: want.Message})
	}
	var got []cmv1.CertificateRequestCondition
	for _, c := range cr.Status.Conditions {
		if c.Type == cmv1.CertificateRequestConditionApproved || c.Type == cmv1.CertificateRequestConditionDenied {
			c.LastTransitionTime = nil
			got = append(got, c)
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s: %s", cr.Name, diff)
	}
	ours := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "approver-policy" && e.Operation == metav1.ManagedFieldsOperationApply
	}
	if slices.ContainsFunc(cr.ManagedFields, ours) != (len(wanted) > 0) {
		t.Errorf("%s: managed fields %+v", cr.Name, cr.ManagedFields)
	}
}

const namespace = "shop"

// world is a server with approver-policy.
type world struct {
	t      *testing.T
	server *apitest.Server
	api    client.Client
}

// newWorld starts a server without an approver of CertificateRequests, on which
// ann makes them and may use policies.
func newWorld(t *testing.T, options ...func(*certplane.Config)) *world {
	s := apitest.Start(t, append([]func(*certplane.Config){func(cfg *certplane.Config) {
		cfg.Controllers = []string{"*", "-certificaterequests-approver"}
	}}, options...)...)
	api, err := client.New(s.Admin(t), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, s, api}
	definition, err := crds.Read(crds.CertificateRequestPolicies)
	if err != nil {
		t.Fatal(err)
	}
	w.create(definition)
	apitest.Eventually(t, "the kind is served", func() bool { return api.List(t.Context(), new(approverpolicy.CertificateRequestPolicyList)) == nil })
	apitest.NewNamespace(t, apitest.Client(t, s.Admin(t)), namespace)
	s.Grant(t, "ann",
		rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"cert-manager.io"}, Resources: []string{"certificaterequests"}},
		rbacv1.PolicyRule{
			Verbs: []string{"use"}, APIGroups: []string{approverpolicy.GroupName}, Resources: []string{approverpolicy.Resource},
			ResourceNames: []string{"permits", "refuses", "refuses-2"},
		})
	return w
}

func scheme(t *testing.T) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{cmv1.AddToScheme, approverpolicy.AddToScheme, eventsv1.AddToScheme, corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func (w *world) startControllers() {
	m, err := manager.New(w.server.Admin(w.t), manager.Options{
		Scheme: policyv1alpha1.GlobalScheme, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // the test can run several times
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := oracle.AddControllers(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the controllers of approver-policy: %v", err)
		}
	})
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(object client.Object) {
	w.t.Helper()
	if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
}

func forIssuer(name, issuer, spec string) *policy {
	p := &policy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		panic(err)
	}
	p.Spec.Selector.IssuerRef = &approverpolicy.IssuerSelector{Name: &issuer}
	return p
}

// policy creates a policy, and waits for the condition that approver-policy
// gives it.
func (w *world) policy(declared *policy) *crp.Policy {
	w.t.Helper()
	w.create(declared)
	apitest.Eventually(w.t, declared.Name+" has a condition", func() bool {
		w.get(declared)
		return len(declared.Status.Conditions) > 0
	})
	compiled, errs := crp.Compile(declared)
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	got := declared.Status.Conditions[0]
	got.LastTransitionTime = metav1.Time{}
	if diff := cmp.Diff(compiled.Readiness(), got); diff != "" {
		w.t.Errorf("%s: %s", declared.Name, diff)
	}
	return compiled
}

// request creates a request to an issuer, as ann.
func (w *world) request(issuer string) *cmv1.CertificateRequest {
	w.t.Helper()
	ann, err := client.New(w.server.As(w.t, "ann"), client.Options{Scheme: scheme(w.t)})
	if err != nil {
		w.t.Fatal(err)
	}
	cr := newRequest("for-"+issuer, cmmeta.IssuerReference{Name: issuer}, "a.example.com", keys()[2])
	if err := ann.Create(w.t.Context(), cr); err != nil {
		w.t.Fatal(err)
	}
	return cr
}

func newRequest(name string, issuer cmmeta.IssuerReference, dnsName string, key crypto.Signer) *cmv1.CertificateRequest {
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{dnsName}}, key))
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: cmv1.CertificateRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), IssuerRef: issuer,
		},
	}
}

// event returns the Event of approver-policy about a request.
func (w *world) event(name string) eventsv1.Event {
	w.t.Helper()
	var found eventsv1.Event
	apitest.Eventually(w.t, "there is an Event about "+name, func() bool {
		var list eventsv1.EventList
		if err := w.api.List(w.t.Context(), &list, client.InNamespace(namespace)); err != nil {
			w.t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.ReportingController == "policy.cert-manager.io"
		})
		if i >= 0 {
			found = list.Items[i]
		}
		return i >= 0
	})
	return found
}
