package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/run/server"
)

// policyWorld is a server on which only the tests decide about requests.
type policyWorld struct {
	world
	probes int
}

func startPolicies(t *testing.T) *policyWorld {
	t.Helper()
	return &policyWorld{world: start(t, func(c *server.Config) {
		c.Controllers = append(c.Controllers, "-approve", "-issuers", "-certificates", "-certificaterequests", "-certificaterequests-approver", "-certificatesigningrequests")
	})}
}

func policyObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion("certplane.dev/v1alpha1")
	if object.GetKind() == "" {
		object.SetKind("CertificatePolicy")
	}
	return object
}

func policiesAs(t *testing.T, cfg *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(policies.PoliciesResource)
}

// apply creates policies and waits until they are in force: policies are
// followed in the order in which they are created.
func (w *policyWorld) apply(t *testing.T, texts ...string) {
	t.Helper()
	w.probes++
	probe := fmt.Sprintf("probe.example.com/p%d", w.probes)
	texts = append(texts, fmt.Sprintf(`{metadata: {name: probe-%d}, spec: {effect: DenyRest, match: {signers: [%s]}}}`, w.probes, probe))
	for _, text := range texts {
		if _, err := policiesAs(t, w.Admin(t)).Create(t.Context(), policyObject(t, text), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	request := apitest.NewCSR(t, "probe", probe, pki.Subject{CommonName: "x"}, apitest.NewKey(t))
	apitest.Eventually(t, "the policies are in force", func() bool {
		_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
}

// person returns a client with a credential of its own.
func (w *policyWorld) person(t *testing.T, told *toldWarnings, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	cfg := w.Login(t, user, groups...)
	if told != nil {
		cfg.WarningHandler = told
	}
	return apitest.Client(t, cfg)
}

// grantApproval lets users approve CertificateSigningRequests for all signers.
func (w *policyWorld) grantApproval(t *testing.T, users ...string) {
	t.Helper()
	for _, user := range users {
		w.Grant(t, user, apitest.Allow("create get update patch", "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status"),
			apitest.Allow("approve sign", "signers"))
	}
}

// causesOf returns the causes of a refusal, which must be 403.
func causesOf(t *testing.T, err error) []metav1.StatusCause {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 403 {
		t.Fatalf("got %v, want a refusal", err)
	}
	return status.Status().Details.Causes
}

func (w *policyWorld) wantUndecided(t *testing.T, name string) {
	t.Helper()
	if got := w.get(t, name).Status.Conditions; len(got) > 0 {
		t.Errorf("the request has the conditions %v", got)
	}
}

const inZone = `{metadata: {name: web}, spec: {effect: Limit, match: {signers: [example.com/web, kubernetes.io/kube-apiserver-client-kubelet]},
  certificate: {names: {dns: {zones: [shop.example.com]}}}, message: "other names: ask #pki"}}`

func TestCertificatePolicies(t *testing.T) {
	w := startPolicies(t)
	w.grantApproval(t, "alice", "bob", "carol", "dave")
	t.Run("create", w.testCreate)
	t.Run("writing policies", w.testWritingPolicies)
	t.Run("escalation", w.testEscalation)
	t.Run("exceptions", w.testExceptions)
	t.Run("approval of what is forbidden", w.testForbiddenApproval)
	t.Run("look back", w.testLookBack)
	t.Run("people", w.testPeople)
	t.Run("certificate requests", w.testCertificateRequests)
}

func (w *policyWorld) testCreate(t *testing.T) {
	w.apply(t, inZone, `{metadata: {name: planned}, spec: {effect: Limit, mode: Warn, match: {signers: [example.com/web]},
		certificate: {names: {max: 1}}}}`)
	var told toldWarnings
	requests := w.person(t, &told, "alice").CertificatesV1().CertificateSigningRequests()
	foreign := apitest.NewCSR(t, "foreign", "example.com/web", pki.Subject{DNSNames: []string{"a.shop.example.com", "www.example.org"}}, apitest.NewKey(t))
	for _, options := range []metav1.CreateOptions{{DryRun: []string{metav1.DryRunAll}}, {}} {
		_, err := requests.Create(t.Context(), foreign, options)
		causes := causesOf(t, err)
		if len(causes) != 1 || causes[0].Type != "NameNotPermitted" || causes[0].Field != "spec.request" {
			t.Errorf("dry run %v: causes are %+v", options.DryRun, causes)
		}
		for _, want := range []string{`certificate policy web: `, `dnsNames[1] "www.example.org"`, "shop.example.com", "other names: ask #pki"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("dry run %v: %v does not have %q", options.DryRun, err, want)
			}
		}
	}
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "foreign", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the refused request: %v", err)
	}
	t.Run("mode Warn", func(t *testing.T) {
		told = nil
		two := apitest.NewCSR(t, "two", "example.com/web", pki.Subject{DNSNames: []string{"a.shop.example.com", "b.shop.example.com"}}, apitest.NewKey(t))
		if _, err := requests.Create(t.Context(), two, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || !strings.Contains(told[0], "certificate policy planned is not enforced yet") {
			t.Errorf("warnings are %q", told)
		}
	})
	t.Run("a kubelet", func(t *testing.T) {
		subject := pki.Subject{CommonName: "system:node:n1", Organizations: []string{"system:nodes"}, DNSNames: []string{"n1"}}
		apitest.Create(t, w.admin, apitest.NewCSR(t, "kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, subject, apitest.NewKey(t)))
	})
}

func (w *policyWorld) testWritingPolicies(t *testing.T) {
	var told toldWarnings
	cfg := w.Admin(t)
	cfg.WarningHandler = &told
	all := policiesAs(t, cfg)
	for _, tc := range []struct{ reason, text, field string }{
		{"an Allow must say which usages", `{metadata: {name: bad}, spec: {effect: Allow, match: {signers: [example.com/x]}, certificate: {names: {dns: {zones: [a.example]}}}}}`, "spec.certificate.usages"},
		{"a duration has no days", `{metadata: {name: bad}, spec: {effect: Limit, match: {signers: [example.com/x]}, certificate: {lifetime: {max: 90d}}}}`, "spec.certificate.lifetime.max"},
		{"an expression must compile", `{metadata: {name: bad}, spec: {effect: Limit, match: {signers: [example.com/x]}, rules: [{name: r, expression: "nonsense("}]}}`, "spec.rules[0].expression"},
	} {
		_, err := all.Create(t.Context(), policyObject(t, tc.text), metav1.CreateOptions{})
		var status apierrors.APIStatus
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) || !hasCause(status.Status().Details.Causes, tc.field) {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	dots := `{metadata: {name: dots}, spec: {effect: Limit, match: {signers: [example.com/dots]}, certificate: {names: {dns: {matches: [".*[.]example"]}}}}}`
	if _, err := all.Create(t.Context(), policyObject(t, dots), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(told) == 0 || !strings.Contains(told[len(told)-1], "spec.certificate.names.dns.matches[0]") {
		t.Errorf("warnings are %q", told)
	}
}

func hasCause(causes []metav1.StatusCause, field string) bool {
	for _, c := range causes {
		if strings.HasPrefix(c.Field, field) {
			return true
		}
	}
	return false
}

func ofGroup(group, verbs, resources string, names ...string) rbacv1.PolicyRule {
	rule := apitest.Allow(verbs, resources, names...)
	rule.APIGroups = []string{group}
	return rule
}

func (w *policyWorld) testEscalation(t *testing.T) {
	write := ofGroup("certplane.dev", "create update", "certificatepolicies")
	w.Grant(t, "author", write)
	w.Grant(t, "author-exact", write, apitest.Allow("approve", "signers", "example.com/svc"))
	w.Grant(t, "author-domain", write, apitest.Allow("approve", "signers", "example.com/*"))
	w.Grant(t, "author-cm", write, ofGroup("cert-manager.io", "approve", "signers", "clusterissuers.cert-manager.io/internal"))
	w.Grant(t, "author-all", write, apitest.Allow("approve", "signers"))
	w.Grant(t, "author-escalates", write, ofGroup("certplane.dev", "escalate", "certificatepolicies"))
	allow := func(signer, rest string) *unstructured.Unstructured {
		return policyObject(t, fmt.Sprintf(`{metadata: {name: esc}, spec: {effect: Allow, match: {signers: [%q]}, certificate: {usages: {allowed: [client auth, digital signature]}}%s}}`, signer, rest))
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, tc := range []struct {
		user, signer, rest string
		missing            string // empty: accepted
	}{
		{"author", "example.com/svc", "", `"approve" on signers "example.com/svc" of certificates.k8s.io`},
		{"author", "example.com/svc", ", mode: Shadow", ""},
		{"author", "example.com/svc", ", mode: Warn", ""},
		{"author-exact", "example.com/svc", "", ""},
		{"author-exact", "example.com/*", "", `"approve" on signers "example.com/*"`},
		{"author-domain", "example.com/*", "", ""},
		{"author-domain", "example.com/svc", "", ""},
		{"author-domain", "*", "", `"approve" on signers "*"`},
		{"author-cm", "clusterissuers.cert-manager.io/internal", "", ""},
		{"author-cm", "clusterissuers.cert-manager.io/other", "", "certificates.k8s.io or cert-manager.io"},
		{"author-all", "*", "", ""},
		{"author-escalates", "*", "", ""},
	} {
		_, err := policiesAs(t, w.Login(t, tc.user)).Create(t.Context(), allow(tc.signer, tc.rest), dry)
		if tc.missing == "" && err != nil || tc.missing != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.missing)) {
			t.Errorf("%s, %s%s: %v", tc.user, tc.signer, tc.rest, err)
		}
	}
	stored, err := policiesAs(t, w.Login(t, "author")).Create(t.Context(), allow("example.com/svc", ", mode: Shadow"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, user string
		path         []string
		value        any
		allowed      bool
	}{
		{"a description", "author", []string{"spec", "description"}, "x", true},
		{"turned to Enforce", "author", []string{"spec", "mode"}, "Enforce", false},
		{"turned to Enforce with the right", "author-exact", []string{"spec", "mode"}, "Enforce", true},
		{"in force: a description", "author", []string{"spec", "description"}, "y", true},
		{"in force: other usages", "author", []string{"spec", "certificate", "usages", "allowed"}, []any{"any"}, false},
		{"in force: turned off", "author", []string{"spec", "mode"}, "Off", true},
	} {
		var updated *unstructured.Unstructured
		// The controller of its status writes it meanwhile.
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
			changed, err := policiesAs(t, w.Admin(t)).Get(t.Context(), stored.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := unstructured.SetNestedField(changed.Object, tc.value, tc.path...); err != nil {
				return err
			}
			updated, err = policiesAs(t, w.Login(t, tc.user)).Update(t.Context(), changed, metav1.UpdateOptions{})
			return err
		})
		if tc.allowed != (err == nil) || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		if err == nil {
			stored = updated
		}
	}
}

func (w *policyWorld) testExceptions(t *testing.T) {
	write := ofGroup("certplane.dev", "create", "certificatepolicyexceptions")
	w.Grant(t, "giver", write, ofGroup("certplane.dev", "except", "certificatepolicies", "web"))
	exception := func(policy, end string) *unstructured.Unstructured {
		return policyObject(t, fmt.Sprintf(`{kind: CertificatePolicyException, metadata: {name: x}, spec: {policies: [%s], items: [certificate.names.dns],
			match: {signers: [example.com/web], requesters: {users: [alice]}}, reason: migration, notAfter: %q}}`, policy, end))
	}
	soon, late := metav1.Now().AddDate(0, 0, 80).UTC().Format("2006-01-02T15:04:05Z"), metav1.Now().AddDate(0, 0, 100).UTC().Format("2006-01-02T15:04:05Z")
	client, err := dynamic.NewForConfig(w.Login(t, "giver"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		policy, end string
		is          func(error) bool
	}{
		{"web", soon, func(err error) bool { return err == nil }},
		{"web", late, apierrors.IsInvalid},
		{"other", soon, func(err error) bool { return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `"except"`) }},
	} {
		_, err := client.Resource(policies.ExceptionsResource).Create(t.Context(), exception(tc.policy, tc.end), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !tc.is(err) {
			t.Errorf("from %s until %s: %v", tc.policy, tc.end, err)
		}
	}
}

// testLookBack: who writes a policy is told which requests of the last hour it would
// have refused.
func (w *policyWorld) testLookBack(t *testing.T) {
	for name, dnsName := range map[string]string{"fits": "www.shop.example.com", "foreign-1": "www.example.org", "foreign-2": "www.example.net", "undecided": "www.example.org"} {
		stored := apitest.Create(t, w.admin, apitest.NewCSR(t, "lately-"+name, "example.com/lately", pki.Subject{DNSNames: []string{dnsName}}, apitest.NewKey(t)))
		if name != "undecided" {
			apitest.Decide(t, w.admin, stored, "Approved")
		}
	}
	var told toldWarnings
	cfg := w.Admin(t)
	cfg.WarningHandler = &told
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	const end = " of 3 requests that were approved in the last hour: "
	const zones = `, certificate: {names: {dns: {zones: [shop.example.com]}}}`
	for _, tc := range []struct{ reason, spec, want string }{
		{"a Limit", "effect: Limit" + zones, "spec: would refuse 2" + end + "CertificateSigningRequest lately-foreign-1 (certificate.names.dns), CertificateSigningRequest lately-foreign-2 (certificate.names.dns)"},
		{"all the rest", "effect: DenyRest", "spec: would refuse 3" + end + "CertificateSigningRequest lately-fits (effect), CertificateSigningRequest lately-foreign-1 (effect), CertificateSigningRequest lately-foreign-2 (effect)"},
		{"a Limit that is not enforced", "effect: Limit, mode: Shadow" + zones, ""},
		{"a Limit that all meet", "effect: Limit, certificate: {names: {max: 1}}", ""},
		{"people: who has approved is not asked again", "effect: Limit, approval: {mode: People, people: {count: 2}}",
			"spec.match.signers: certplane does not sign for example.com/lately: a request that is approved past admission, as while its webhook is deleted, gets a certificate there without these people"},
	} {
		told = nil
		text := fmt.Sprintf(`{metadata: {name: lately}, spec: {%s, match: {kinds: [CertificateSigningRequest], signers: [example.com/lately]}}}`, tc.spec)
		if _, err := policiesAs(t, cfg).Create(t.Context(), policyObject(t, text), dry); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(told, "\n"); got != tc.want {
			t.Errorf("%s: warnings are %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// testForbiddenApproval: a right to approve does not help against a policy.
func (w *policyWorld) testForbiddenApproval(t *testing.T) {
	stored := apitest.Create(t, w.admin, apitest.NewCSR(t, "before", "example.com/late", pki.Subject{DNSNames: []string{"www.example.org"}}, apitest.NewKey(t)))
	w.apply(t, strings.ReplaceAll(strings.ReplaceAll(inZone, "example.com/web", "example.com/late"), "name: web", "name: late"))
	client := w.person(t, nil, "carol")
	requests := client.CertificatesV1().CertificateSigningRequests()
	patch := []byte(`{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test","message":"x"}]}}`)
	apply := []byte(`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"before"},"status":{"conditions":[{"type":"Approved","status":"True","reason":"Test","message":"x"}]}}`)
	for way, approve := range map[string]func() error{
		"update": func() error {
			_, err := requests.UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), noUpdate)
			return err
		},
		"dry run": func() error {
			_, err := requests.UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), dryRun)
			return err
		},
		"merge patch": func() error {
			_, err := requests.Patch(t.Context(), stored.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "approval")
			return err
		},
		"server-side apply": func() error {
			_, err := requests.Patch(t.Context(), stored.Name, types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "test"}, "approval")
			return err
		},
		"v1beta1": func() error {
			_, err := client.CertificatesV1beta1().CertificateSigningRequests().Patch(t.Context(), stored.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "approval")
			return err
		},
	} {
		err := approve()
		if causesOf(t, err); !strings.Contains(err.Error(), "certificate policy late: ") {
			t.Errorf("%s: %v", way, err)
		}
	}
	w.wantUndecided(t, stored.Name)
	t.Run("without the right", func(t *testing.T) {
		w.Grant(t, "nobody", apitest.Allow("update", "certificatesigningrequests/approval"))
		_, err := w.person(t, nil, "nobody").CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), stored.Name, apitest.With(stored, "Approved"), noUpdate)
		wantForbidden(t, err, stored.Name, `user not permitted to approve requests with signerName "example.com/late"`)
	})
}
