//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package admission_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// dryCreate is for trying a create without storing.
var dryCreate = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

func TestWebhooksAndPolicies(t *testing.T) {
	t.Parallel()
	w := start(t)
	t.Run("validating webhook", w.testValidatingWebhook)
	t.Run("mutating webhook", w.testMutatingWebhook)
	t.Run("namespaces", w.testNamespaceSelector)
	t.Run("failures", w.testFailures)
	t.Run("services", w.testWebhooksOfServices)
	t.Run("questions", w.testQuestionsPass)
	t.Run("validating policy", w.testValidatingPolicy)
	t.Run("parameters", w.testPolicyParameters)
	t.Run("mutating policy", w.testMutatingPolicy)
	t.Run("keys of pod requests", w.testPodKeysStay)
}

// decide answers a review.
type decide func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

func (d decide) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(rw, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = d(review.Request)
	review.Response.UID = review.Request.UID
	review.Request = nil
	json.NewEncoder(rw).Encode(review)
}

// rule returns rules that match writes to resources of any group; resources are
// separated by blanks.
func rule(resources string) []v1.RuleWithOperations {
	return []v1.RuleWithOperations{{
		Operations: []v1.OperationType{v1.Create, v1.Update},
		Rule:       v1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: strings.Fields(resources)},
	}}
}

// validating creates one validating webhook until the test ends.
func (w world) validating(t *testing.T, name string, hook v1.ValidatingWebhook) {
	t.Helper()
	hook.Name = name + ".example.com"
	hook.SideEffects, hook.AdmissionReviewVersions = ptr.To(v1.SideEffectClassNone), []string{"v1"}
	configurations := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	c := &v1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []v1.ValidatingWebhook{hook}}
	if _, err := configurations.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { configurations.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// mutating creates a configuration of mutating webhooks until the test ends.
func (w world) mutating(t *testing.T, name string, hooks ...v1.MutatingWebhook) {
	t.Helper()
	for i := range hooks {
		hooks[i].Name = fmt.Sprintf("%s-%d.example.com", name, i)
		hooks[i].SideEffects, hooks[i].AdmissionReviewVersions = ptr.To(v1.SideEffectClassNone), []string{"v1"}
	}
	configurations := w.admin.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c := &v1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}
	if _, err := configurations.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { configurations.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// at returns the client configuration of a webhook that the test serves.
func at(t *testing.T, handler http.Handler) v1.WebhookClientConfig {
	t.Helper()
	url, ca := apitest.Webhook(t, handler)
	return v1.WebhookClientConfig{URL: &url, CABundle: ca}
}

// tries creates a role in a dry run, which only the tested rules affect.
func (w world) tries(t *testing.T, name string, labels ...string) (*rbacv1.ClusterRole, error) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		role.Labels[label] = ""
	}
	return w.admin.RbacV1().ClusterRoles().Create(t.Context(), role, dryCreate)
}

func (w world) testValidatingWebhook(t *testing.T) {
	config := at(t, decide(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{
			Allowed:  !strings.HasPrefix(r.Name, "bad"),
			Result:   &metav1.Status{Message: r.UserInfo.Username + " wants " + r.Name, Code: http.StatusTeapot},
			Warnings: []string{"somebody watches"},
		}
	}))
	w.validating(t, "no-bad-names", v1.ValidatingWebhook{ClientConfig: config, Rules: rule("certificatesigningrequests clusterroles")})
	var err error
	apitest.Eventually(t, "the webhook is asked", func() bool {
		_, err = w.tries(t, "bad-role")
		return err != nil
	})
	const want = `admission webhook "no-bad-names.example.com" denied the request: certplane:admin wants bad-role`
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusTeapot || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	request := apitest.NewCSR(t, "bad-request", signerName, pki.Subject{CommonName: "a"}, apitest.NewKey(t))
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, dryCreate); err == nil {
		t.Error("a request passed the webhook")
	}
	if _, err := w.tries(t, "good-role"); err != nil {
		t.Error(err)
	}
}

func (w world) testMutatingWebhook(t *testing.T) {
	patch := []byte(`[{"op":"add","path":"/metadata/labels/seen","value":"yes"}]`)
	config := at(t, decide(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
	}))
	w.mutating(t, "seen", v1.MutatingWebhook{
		ClientConfig: config, Rules: rule("*"),
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "see-me", Operator: metav1.LabelSelectorOpExists}}},
	})
	apitest.Eventually(t, "the webhook labels roles", func() bool {
		role, err := w.tries(t, "labelled", "see-me")
		return err == nil && role.Labels["seen"] == "yes"
	})
	request := apitest.NewCSR(t, "labelled", signerName, pki.Subject{CommonName: "a"}, apitest.NewKey(t))
	request.Labels = map[string]string{"see-me": ""}
	if got, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, dryCreate); err != nil || got.Labels["seen"] != "yes" {
		t.Errorf("request: %v, %v", got, err)
	}
	if role, err := w.tries(t, "unlabelled"); err != nil || role.Labels["seen"] != "" {
		t.Errorf("role that nobody selects: %v, %v", role, err)
	}
}

func (w world) testNamespaceSelector(t *testing.T) {
	for _, name := range []string{"guarded", "open"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": name}}}
		if _, err := w.admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.validating(t, "guard", v1.ValidatingWebhook{
		ClientConfig: at(t, decide(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{}
		})),
		Rules:             rule("configmaps"),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"is": "guarded"}},
	})
	write := func(namespace string) error {
		_, err := w.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, dryCreate)
		return err
	}
	apitest.Eventually(t, "the namespace is guarded", func() bool { return write("guarded") != nil })
	if err := write("open"); err != nil {
		t.Errorf("a namespace that is not selected: %v", err)
	}
}

// testFailures checks the result when a webhook does not answer.
func (w world) testFailures(t *testing.T) {
	hangs := at(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body) // otherwise a disconnect is not noticed
		<-req.Context().Done()
	}))
	allows := at(t, decide(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true}
	}))
	untrusted := allows
	untrusted.CABundle = nil
	service := v1.WebhookClientConfig{Service: &v1.ServiceReference{Namespace: "default", Name: "hook"}}
	for _, test := range []struct {
		name   string
		config v1.WebhookClientConfig
		want   string
	}{
		{"hangs", hangs, "context deadline exceeded"},
		{"untrusted", untrusted, "x509: certificate signed by unknown authority"},
		{"service", service, "set clientConfig.url instead of clientConfig.service"},
		{"allows", allows, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for policy, label := range map[v1.FailurePolicyType]string{v1.Fail: "fail-" + test.name, v1.Ignore: "ignore-" + test.name} {
				w.validating(t, label, v1.ValidatingWebhook{
					ClientConfig: test.config, Rules: rule("clusterroles"), TimeoutSeconds: ptr.To[int32](1), FailurePolicy: &policy,
					ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}},
				})
			}
			if test.want != "" {
				apitest.Eventually(t, "the webhook is asked", func() bool {
					_, err := w.tries(t, test.name, "fail-"+test.name)
					return err != nil && apierrors.IsInternalError(err) && strings.Contains(err.Error(), test.want)
				})
			}
			if _, err := w.tries(t, test.name, "ignore-"+test.name); err != nil {
				t.Errorf("ignored: %v", err)
			}
		})
	}
}

// testWebhooksOfServices: a webhook with a Service is called at the address of
// the Service, and must have a certificate for the Service's name.
func (w world) testWebhooksOfServices(t *testing.T) {
	refuses := decide(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "the service refuses"}}
	})
	const namespace = metav1.NamespaceDefault
	for name, test := range map[string]struct {
		spec    corev1.ServiceSpec
		serving string // the name in the webhook's certificate
		want    string
	}{
		"named":     {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}, "named", "the service refuses"},
		"addressed": {corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ExternalIPs: []string{"127.0.0.1"}}, "addressed", "the service refuses"},
		"posing":    {corev1.ServiceSpec{ExternalIPs: []string{"127.0.0.1"}}, "another", "certificate is valid for another.default.svc, not posing.default.svc"},
		"unbound":   {corev1.ServiceSpec{}, "unbound", `service "unbound" in namespace "default": it has no address that this server can connect to`},
	} {
		t.Run(name, func(t *testing.T) {
			port, ca := apitest.ServiceWebhook(t, namespace, test.serving, refuses)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: test.spec}
			service.Spec.Ports = []corev1.ServicePort{{Port: port}}
			if _, err := w.admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				w.admin.CoreV1().Services(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
			})
			reference := &v1.ServiceReference{Namespace: namespace, Name: name, Port: &port}
			w.validating(t, "service-"+name, v1.ValidatingWebhook{
				ClientConfig: v1.WebhookClientConfig{Service: reference, CABundle: ca}, Rules: rule("clusterroles"),
				ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "service-" + name, Operator: metav1.LabelSelectorOpExists}}},
			})
			var err error
			apitest.Eventually(t, "the webhook is asked", func() bool {
				_, err = w.tries(t, name, "service-"+name)
				return err != nil
			})
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// testQuestionsPass: a webhook that refuses everything does not block the
// reviews that may be needed to remove it.
func (w world) testQuestionsPass(t *testing.T) {
	nowhere := "https://127.0.0.1:1/"
	w.validating(t, "everything", v1.ValidatingWebhook{ClientConfig: v1.WebhookClientConfig{URL: &nowhere}, Rules: rule("*/*")})
	apitest.Eventually(t, "nothing can be created", func() bool {
		_, err := w.tries(t, "any")
		return err != nil
	})
	what := authorizationv1.ResourceAttributes{Verb: "get", Group: "example.com", Resource: "things"}
	if !w.Allowed(t, "somebody", []string{"system:masters"}, what) {
		t.Error("the administrators' group may do nothing any more")
	}
	if err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "everything", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "everything goes on", func() bool {
		_, err := w.tries(t, "any")
		return err == nil
	})
}

// apply stores the documents of a YAML file, as kubectl would.
func (w world) apply(t *testing.T, text string) {
	t.Helper()
	api := w.admin.AdmissionregistrationV1()
	for _, document := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		resource := map[string]string{
			"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
			"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
			"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
			"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
		}[kind.Kind]
		err := api.RESTClient().Post().Resource(resource).SetHeader("Content-Type", "application/yaml").Body([]byte(document)).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("applying %v\n%s", err, document)
		}
	}
}

func (w world) testValidatingPolicy(t *testing.T) {
	w.apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-certificates-for-dev}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [certificates.k8s.io]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [certificatesigningrequests]
  validations:
  - expression: "!request.userInfo.username.startsWith('system:serviceaccount:dev:')"
    message: service accounts of namespace dev get no certificates
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-certificates-for-dev}
spec:
  policyName: no-certificates-for-dev
  validationActions: [Deny]`)
	const dev, prod = "system:serviceaccount:dev:builder", "system:serviceaccount:prod:builder"
	for _, who := range []string{dev, prod} {
		w.Grant(t, who, apitest.Allow("create", "certificatesigningrequests"))
	}
	ask := func(who string) error {
		request := apitest.NewCSR(t, "policy", signerName, pki.Subject{CommonName: "a"}, apitest.NewKey(t))
		_, err := w.as(t, who).CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, dryCreate)
		return err
	}
	apitest.Eventually(t, "dev is refused", func() bool { return ask(dev) != nil })
	const want = `certificatesigningrequests.certificates.k8s.io "policy" is forbidden: ` +
		`ValidatingAdmissionPolicy 'no-certificates-for-dev' with binding 'no-certificates-for-dev' denied request: ` +
		`service accounts of namespace dev get no certificates`
	if err := ask(dev); !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := ask(prod); err != nil {
		t.Errorf("prod: %v", err)
	}
}

func (w world) testPolicyParameters(t *testing.T) {
	limits := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Data: map[string]string{"longest": "8"}}
	if _, err := w.admin.CoreV1().ConfigMaps("default").Create(t.Context(), limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: short-names}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [rbac.authorization.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [clusterroles]}
  matchConditions:
  - {name: tested, expression: "object.metadata.name.startsWith('p-')"}
  validations:
  - expression: object.metadata.name.size() <= int(params.data.longest)
    messageExpression: "'at most ' + params.data.longest + ' letters'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: short-names}
spec:
  policyName: short-names
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}
  validationActions: [Deny]`)
	apitest.Eventually(t, "long names are refused", func() bool {
		_, err := w.tries(t, "p-somebody")
		return err != nil && strings.Contains(err.Error(), "at most 8 letters")
	})
	if _, err := w.tries(t, "p-me"); err != nil {
		t.Error(err)
	}
}

func (w world) testMutatingPolicy(t *testing.T) {
	w.apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [certificates.k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [certificatesigningrequests]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"team": request.userInfo.username.split(":")[0]}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}`)
	apitest.Eventually(t, "requests are labelled", func() bool {
		request := apitest.NewCSR(t, "mutated", signerName, pki.Subject{CommonName: "a"}, apitest.NewKey(t))
		got, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, dryCreate)
		return err == nil && got.Labels["team"] == "certplane"
	})
}

// testPodKeysStay: webhooks and policies for v1 see and change requests of
// kubelet 1.35, and the requests keep their keys, which v1 does not have. A
// later webhook for v1beta1 sees the key.
func (w world) testPodKeysStay(t *testing.T) {
	labels := func(op string) decide {
		return func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			if strings.HasSuffix(op, "v1beta1") && !strings.Contains(string(r.Object.Raw), `"pkixPublicKey":`) {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "the request has no key"}}
			}
			patch := fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":"yes"}]`, op)
			return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
		}
	}
	hook := func(label, version string) v1.MutatingWebhook {
		rules := []v1.RuleWithOperations{{
			Operations: []v1.OperationType{v1.Create, v1.Update},
			Rule:       v1.Rule{APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{version}, Resources: []string{"podcertificaterequests"}},
		}}
		return v1.MutatingWebhook{ClientConfig: at(t, labels(label)), Rules: rules, MatchPolicy: ptr.To(v1.Equivalent)}
	}
	w.mutating(t, "keys", hook("hook-v1", "v1"), hook("hook-v1beta1", "v1beta1"), hook("again-v1", "v1"))
	w.apply(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: keys}
spec:
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules:
    - {apiGroups: [certificates.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [podcertificaterequests]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"policy": "yes"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: keys}
spec: {policyName: keys}`)

	key := apitest.NewKey(t)
	request := apitest.NewBoundPod(t, w.admin, "default", "old", "old", apitest.PodSource("example.com/nobody")).Request(t, 0, key)
	request.Labels = map[string]string{"from": "1.35"}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(request.Spec.PodUID))
	proof, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	request.Spec.StubPKCS10Request, request.Spec.PKIXPublicKey, request.Spec.ProofOfPossession = nil, public, proof
	requests := w.admin.CertificatesV1beta1().PodCertificateRequests("default")
	var got *certificatesv1beta1.PodCertificateRequest
	apitest.Eventually(t, "the request is changed by all", func() bool {
		if got, err = requests.Create(t.Context(), request, dryCreate); err != nil {
			t.Fatal(err)
		}
		for _, label := range []string{"hook-v1", "hook-v1beta1", "again-v1", "policy"} {
			if got.Labels[label] != "yes" {
				return false
			}
		}
		return true
	})
	if !bytes.Equal(got.Spec.PKIXPublicKey, public) || !bytes.Equal(got.Spec.ProofOfPossession, proof) {
		t.Errorf("key %x, proof %x", got.Spec.PKIXPublicKey, got.Spec.ProofOfPossession)
	}
}

// If they are disabled, webhooks and policies are stored and have no effect.
func TestDisabledExtensions(t *testing.T) {
	t.Parallel()
	w := start(t)
	nowhere := "https://127.0.0.1:1/"
	w.validating(t, "everything", v1.ValidatingWebhook{ClientConfig: v1.WebhookClientConfig{URL: &nowhere}, Rules: rule("clusterroles")})
	apitest.Eventually(t, "no role can be created", func() bool {
		_, err := w.tries(t, "any")
		return err != nil
	})
	w.Config.Admission.DisabledPlugins = []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"}
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	if _, err := w.tries(t, "any"); err != nil {
		t.Error(err)
	}
}
