package promote_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/promote"
	"github.com/certplane/certplane/internal/run/server"
)

// world is a server whose controller of policies does not run, so that tests
// write the status.
func world(t *testing.T) client.WithWatch {
	t.Helper()
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{"*", "-policies"} })
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(s.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the API has policies", func() bool {
		return api.List(t.Context(), &v1alpha1.CertificatePolicyList{}) == nil
	})
	return api
}

func create(t *testing.T, api client.Client, name, message string, mode v1alpha1.PolicyMode, replaces string, shadow *v1alpha1.PolicyShadowStatus) {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}},
		Spec: v1alpha1.CertificatePolicySpec{
			Effect: v1alpha1.PolicyLimit, Mode: mode, Replaces: replaces, Message: message,
			Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/web"}},
		},
	}
	if err := api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.Status = v1alpha1.CertificatePolicyStatus{ObservedGeneration: p.Generation, Shadow: shadow}
	if err := api.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestPromote(t *testing.T) {
	api := world(t)
	same := &v1alpha1.PolicyShadowStatus{Evaluated: 7}
	differs := &v1alpha1.PolicyShadowStatus{Evaluated: 7, Differences: 1, Samples: []v1alpha1.PolicyShadowSample{
		{Request: "CertificateSigningRequest try", Was: v1alpha1.OutcomeApprove, Would: v1alpha1.OutcomeDeny, Violations: []string{"certificate.keys"}},
	}}
	tests := []struct {
		reason string
		shadow *v1alpha1.PolicyShadowStatus
		yes    bool
		typed  string
		// promoted is set if the policy is enforced afterwards.
		promoted bool
		output   string
	}{
		{reason: "no differences", shadow: same, promoted: true, output: "next: 7 requests evaluated, 0 decided differently"},
		{reason: "differences, and nobody to ask", shadow: differs, output: "CertificateSigningRequest try  Approve→Deny  certificate.keys"},
		{reason: "differences, and --yes", shadow: differs, yes: true, promoted: true, output: "1 decided differently"},
		{reason: "differences, and a yes", shadow: differs, typed: "yes\n", promoted: true, output: "Promote it although decisions will change?"},
		{reason: "differences, and a no", shadow: differs, typed: "n\n", output: "Promote it"},
		{reason: "differences, and Enter", shadow: differs, typed: "\n", output: "Promote it"},
		{reason: "nothing was counted", output: "no request was evaluated yet"},
		{reason: "nothing was counted, and --yes", yes: true, promoted: true, output: "policy next deleted"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			create(t, api, "web", "old", v1alpha1.PolicyEnforce, "", nil)
			create(t, api, "next", "new", v1alpha1.PolicyShadow, "web", tc.shadow)
			t.Cleanup(func() { deleteAll(t, api) })
			var out bytes.Buffer
			cfg := promote.Config{API: api, Name: "next", Yes: tc.yes, Stdout: &out}
			if tc.typed != "" {
				cfg.Terminal = strings.NewReader(tc.typed)
			}
			err := promote.Run(t.Context(), cfg)
			if tc.promoted != (err == nil) || err != nil && !answer.IsNo(err) || !strings.Contains(out.String(), tc.output) {
				t.Fatalf("error %v, output\n%s", err, out.String())
			}
			web := named(t, api, "web")
			if tc.promoted != (web.Spec.Message == "new") || web.Spec.Mode != v1alpha1.PolicyEnforce || web.Spec.Replaces != "" || web.Labels["of"] != "web" {
				t.Errorf("the policy is %+v", web.Spec)
			}
			if left := named(t, api, "next") != nil; left == tc.promoted {
				t.Errorf("the policy that was tried is there: %t", left)
			}
		})
	}
}

// A policy that replaces none is enforced itself.
func TestPromoteAlone(t *testing.T) {
	api := world(t)
	create(t, api, "web", "m", v1alpha1.PolicyWarn, "", &v1alpha1.PolicyShadowStatus{Evaluated: 1})
	if err := promote.Run(t.Context(), promote.Config{API: api, Name: "web", Stdout: &bytes.Buffer{}}); err != nil {
		t.Fatal(err)
	}
	if web := named(t, api, "web"); web == nil || web.Spec.Mode != v1alpha1.PolicyEnforce {
		t.Errorf("the policy is %v", web)
	}
}

func TestRefused(t *testing.T) {
	api := world(t)
	create(t, api, "web", "", v1alpha1.PolicyEnforce, "", nil)
	create(t, api, "lost", "", v1alpha1.PolicyShadow, "none", nil)
	for name, want := range map[string]string{
		"web":   "spec.mode of the policy web is Enforce",
		"lost":  "spec.replaces of the policy lost is none, which does not exist",
		"other": "reading the policy other: ",
	} {
		err := promote.Run(t.Context(), promote.Config{API: api, Name: name, Yes: true, Stdout: &bytes.Buffer{}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

// What somebody else writes meanwhile is not lost.
func TestConflict(t *testing.T) {
	api := world(t)
	create(t, api, "web", "old", v1alpha1.PolicyEnforce, "", nil)
	create(t, api, "next", "new", v1alpha1.PolicyShadow, "web", nil)
	racing := interceptor.NewClient(api, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			other := named(t, api, "web")
			other.Spec.Message = "of somebody else"
			return errors.Join(api.Update(ctx, other), c.Update(ctx, o, options...))
		},
	})
	err := promote.Run(t.Context(), promote.Config{API: racing, Name: "next", Yes: true, Stdout: &bytes.Buffer{}})
	if err == nil || named(t, api, "web").Spec.Message != "of somebody else" || named(t, api, "next") == nil {
		t.Errorf("error %v, message %q", err, named(t, api, "web").Spec.Message)
	}
}

// named returns a policy, nil if there is none.
func named(t *testing.T, api client.Client, name string) *v1alpha1.CertificatePolicy {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{}
	err := api.Get(t.Context(), client.ObjectKey{Name: name}, p)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return p
}

func deleteAll(t *testing.T, api client.Client) {
	t.Helper()
	if err := api.DeleteAllOf(context.WithoutCancel(t.Context()), &v1alpha1.CertificatePolicy{}); err != nil {
		t.Error(err)
	}
}

// A protected policy is promoted by several people: the first one is told that it is
// not yet, and the policy that was tried stays until then.
func TestPromoteNeedsPeople(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{"*", "-policies"} })
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	as := func(name string) client.Client {
		s.Grant(t, name, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}})
		api, err := client.New(s.Login(t, name), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		apitest.Eventually(t, name+" may read policies", func() bool { return api.List(t.Context(), &v1alpha1.CertificatePolicyList{}) == nil })
		return api
	}
	alice, bob := as("alice"), as("bob")
	create(t, alice, "next", "new", v1alpha1.PolicyShadow, "web", nil)
	web := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/web"}},
		Protection: &v1alpha1.PolicyProtection{People: v1alpha1.ProtectingPeople{Count: 2}},
	}}
	if err := alice.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	run := func(api client.Client) (string, error) {
		var out bytes.Buffer
		err := promote.Run(t.Context(), promote.Config{API: api, Name: "next", Yes: true, Stdout: &out})
		return out.String(), err
	}
	for range 2 {
		if out, err := run(alice); err == nil || !strings.Contains(err.Error(), "not promoted yet") || strings.Contains(out, "enforced") {
			t.Errorf("one person has promoted it: %v, %s", err, out)
		}
	}
	if out, err := run(bob); err != nil || !strings.Contains(out, "policy web has the specification of next and is enforced\npolicy next deleted") {
		t.Errorf("two people have not promoted it: %v, %s", err, out)
	}
	if err := alice.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || web.Spec.Message != "new" || web.Spec.Protection == nil {
		t.Errorf("%v, %+v", err, web.Spec)
	}
}
