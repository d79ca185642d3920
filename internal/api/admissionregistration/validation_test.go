package admissionregistration_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api"
	"github.com/certplane/certplane/internal/api/admissionregistration"
)

// read decodes YAML into obj and sets defaults, as the server does.
func read[T any, P interface {
	*T
	runtime.Object
	metav1.Object
}](t *testing.T, text string) P {
	t.Helper()
	obj := P(new(T))
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if obj.GetName() == "" {
		obj.SetName("test")
	}
	api.Scheme.Default(obj)
	return obj
}

// edit replaces a part of text, which must contain it.
func edit(t *testing.T, text, part, by string) string {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Fatalf("there is no %q to replace", part)
	}
	return strings.Replace(text, part, by, 1)
}

// check compares errors with the wanted fields and words; if want is empty,
// there must be no error.
func check(t *testing.T, obj runtime.Object, want string) {
	t.Helper()
	errs := admissionregistration.Validate(obj)
	if want == "" {
		if len(errs) > 0 {
			t.Errorf("refused: %v", errs.ToAggregate())
		}
		return
	}
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("got  %v\nwant %s", errs.ToAggregate(), want)
	}
}

func TestWebhooks(t *testing.T) {
	const good = `
webhooks:
- name: check.example.com
  clientConfig: {url: "https://127.0.0.1:9443/check"}
  admissionReviewVersions: [v1]
  sideEffects: None
  rules:
  - {operations: [CREATE], apiGroups: [certificates.k8s.io], apiVersions: [v1], resources: [certificatesigningrequests]}
`
	for _, test := range []struct{ reason, replace, by, want string }{
		{"it is good", "", "", ""},
		{"an empty configuration does nothing", good, "webhooks: []", ""},
		{"names are unique in the world", "check.example.com", "check", "webhooks[0].name"},
		{"nobody to call", `{url: "https://127.0.0.1:9443/check"}`, "{}", "exactly one of url or service is required"},
		{"two to call", `{url: "https://127.0.0.1:9443/check"}`, `{url: "https://a/b", service: {name: a, namespace: b}}`, "exactly one of url or service is required"},
		{"a service is stored although it cannot be reached", `{url: "https://127.0.0.1:9443/check"}`, "{service: {name: a, namespace: b}}", ""},
		{"requests are secrets", "https://127", "http://127", "webhooks[0].clientConfig.url"},
		{"a dry run changes nothing", "sideEffects: None", "sideEffects: Some", `webhooks[0].sideEffects: Unsupported value: "Some"`},
		{"somebody must have thought about dry runs", "  sideEffects: None\n", "", "webhooks[0].sideEffects: Required value"},
		{"a version that the server speaks", "[v1]\n  side", "[v2]\n  side", "must include at least one of v1, v1beta1"},
		{"a version twice", "[v1]\n  side", "[v1, v1]\n  side", "duplicate version"},
		{"no version", "[v1]\n  side", "[]\n  side", "must specify one of v1, v1beta1"},
		{"no time", "sideEffects: None", "sideEffects: None\n  timeoutSeconds: 0", "must be between 1 and 30 seconds"},
		{"too much time", "sideEffects: None", "sideEffects: None\n  timeoutSeconds: 31", "must be between 1 and 30 seconds"},
		{"an unknown policy", "sideEffects: None", "sideEffects: None\n  failurePolicy: Retry", `webhooks[0].failurePolicy: Unsupported value: "Retry"`},
		{"everything and more", "[CREATE]", `["*", CREATE]`, "if '*' is present, must not specify other operations"},
		{"an unknown operation", "[CREATE]", "[LIST]", `operations[0]: Unsupported value: "LIST"`},
		{"no group", "[certificates.k8s.io]", "[]", "rules[0].apiGroups: Required value"},
		{"no resource", "[certificatesigningrequests]", "[]", "rules[0].resources: Required value"},
		{"a subresource that a wildcard has", "[certificatesigningrequests]", `["a/*", "a/b"]`, "if 'a/*' is present, must not specify a/b"},
		{"a resource that a wildcard has", "[certificatesigningrequests]", `["*", a]`, "must not specify other resources without subresources"},
		{"all resources and a subresource", "[certificatesigningrequests]", `["*", "a/b"]`, ""},
		{"an expression that is none", "sideEffects: None", "sideEffects: None\n  matchConditions: [{name: a, expression: '1 +'}]", "matchConditions[0].expression"},
		{"an expression that is not a condition", "sideEffects: None", "sideEffects: None\n  matchConditions: [{name: a, expression: '1'}]", "must evaluate to bool"},
		{"a webhook has no parameters", "sideEffects: None", "sideEffects: None\n  matchConditions: [{name: a, expression: 'params.x'}]", "undeclared reference to 'params'"},
		{"a condition", "sideEffects: None", "sideEffects: None\n  matchConditions: [{name: a, expression: 'request.userInfo.username != \"x\"'}]", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			text := edit(t, good, test.replace, test.by)
			check(t, read[v1.ValidatingWebhookConfiguration](t, text), test.want)
			check(t, read[v1.MutatingWebhookConfiguration](t, text), test.want)
		})
	}
	twice := read[v1.ValidatingWebhookConfiguration](t, good)
	twice.Webhooks = append(twice.Webhooks, twice.Webhooks[0])
	check(t, twice, `webhooks[1].name: Duplicate value: "check.example.com"`)
	reserved := read[v1.ValidatingWebhookConfiguration](t, good)
	reserved.Name = "mine.static.k8s.io"
	check(t, reserved, "names ending with")
}

func TestValidatingPolicies(t *testing.T) {
	const good = `
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [certificates.k8s.io], apiVersions: ["*"], resources: [certificatesigningrequests]}
  variables: [{name: who, expression: request.userInfo.username}]
  validations:
  - expression: variables.who != 'mallory'
    message: not you
`
	for _, test := range []struct{ reason, replace, by, want string }{
		{"it is good", "", "", ""},
		{"nothing is constrained", "  matchConstraints:\n    resourceRules:\n    - {operations: [CREATE], apiGroups: [certificates.k8s.io], apiVersions: [\"*\"], resources: [certificatesigningrequests]}\n", "", "spec.matchConstraints: Required value"},
		{"types come from the rules", "resourceRules:\n    - {operations: [CREATE], apiGroups: [certificates.k8s.io], apiVersions: [\"*\"], resources: [certificatesigningrequests]}", "resourceRules: []", "spec.matchConstraints.resourceRules: Required value"},
		{"an unknown variable", "variables.who !=", "variables.whom !=", "undefined field 'whom'"},
		{"a variable that is no identifier", "username}]", "username}, {name: in, expression: '1'}]", "must be a valid CEL identifier"},
		{"a condition must be one", "variables.who != 'mallory'", "variables.who", "must evaluate to bool"},
		{"messages are lines", "message: not you", `message: "not\nyou"`, "must not contain line breaks"},
		{"a message must be a text", "message: not you", "messageExpression: '1'", "must evaluate to string"},
		{"messages do not ask for permission", "message: not you", "messageExpression: 'authorizer.group(\"\").resource(\"x\").check(\"get\").reason()'", "undeclared reference to 'authorizer'"},
		{"a reason that is a status", "message: not you", "reason: Forbidden", ""},
		{"a reason that is none", "message: not you", "reason: Because", `validations[0].reason: Unsupported value: "Because"`},
		{"parameters that are not declared", "variables.who != 'mallory'", "params.who != ''", "undeclared reference to 'params'"},
		{"a kind of parameters", "spec:", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}", ""},
		{"a kind without a version", "spec:", "spec:\n  paramKind: {kind: ConfigMap}", "spec.paramKind.apiVersion: Required value"},
		{"a version without a name", "spec:", "spec:\n  paramKind: {apiVersion: example.com/, kind: A}", "version must be specified"},
		{"an annotation twice", "spec:", "spec:\n  auditAnnotations: [{key: a, valueExpression: \"'x'\"}, {key: a, valueExpression: \"'y'\"}]", `auditAnnotations[1].key: Duplicate value: "a"`},
		{"an annotation that is no text", "spec:", "spec:\n  auditAnnotations: [{key: a, valueExpression: \"1\"}]", "must evaluate to one of [string null_type]"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			check(t, read[v1.ValidatingAdmissionPolicy](t, edit(t, good, test.replace, test.by)), test.want)
		})
	}
	empty := read[v1.ValidatingAdmissionPolicy](t, good)
	empty.Spec.Validations = nil
	if errs := admissionregistration.Validate(empty); len(errs) != 2 {
		t.Errorf("a policy that checks nothing: %v", errs.ToAggregate())
	}
}

func TestMutatingPolicies(t *testing.T) {
	const good = `
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}
`
	const configuration = `applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}`
	const jsonPatch = `jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/data"}]'}`
	for _, test := range []struct{ reason, replace, by, want string }{
		{"it is good", "", "", ""},
		{"deletions have nothing to mutate", "[CREATE]", "[DELETE]", `Unsupported value: "DELETE"`},
		{"who is called again must be said", "  reinvocationPolicy: Never\n", "", "spec.reinvocationPolicy: Required value"},
		{"the patch of another type", configuration, jsonPatch, "must be specified when patchType is ApplyConfiguration"},
		{"two patches", configuration, configuration + "\n    " + jsonPatch, "must not be specified when patchType is ApplyConfiguration"},
		{"a JSON patch", "ApplyConfiguration\n    " + configuration, "JSONPatch\n    " + jsonPatch, ""},
		{"no type", "patchType: ApplyConfiguration\n    ", "", "patchType: Required value"},
		{"an unknown type", "patchType: ApplyConfiguration", "patchType: Merge", `patchType: Unsupported value: "Merge"`},
		{"an expression that makes no object", `Object{metadata: Object.metadata{labels: {"a": "b"}}}`, `{"a": "b"}`, "must evaluate to Object"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			text := edit(t, good, test.replace, test.by)
			errs := admissionregistration.Validate(read[v1.MutatingAdmissionPolicy](t, text))
			switch {
			case test.want == "" && len(errs) > 0:
				t.Errorf("refused: %v", errs.ToAggregate())
			case test.want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), test.want)):
				t.Errorf("got  %v\nwant %s", errs.ToAggregate(), test.want)
			}
		})
	}
}

func TestBindings(t *testing.T) {
	for _, test := range []struct{ reason, spec, want string }{
		{"it is good", "{policyName: p, validationActions: [Deny, Audit]}", ""},
		{"a binding of nothing", "{validationActions: [Deny]}", "spec.policyName: Required value"},
		{"a binding without effect", "{policyName: p}", "at least one validation action is required"},
		{"an unknown action", "{policyName: p, validationActions: [Pray]}", `validationActions[0]: Unsupported value: "Pray"`},
		{"an action twice", "{policyName: p, validationActions: [Deny, Deny]}", "Duplicate value"},
		{"saying it twice", "{policyName: p, validationActions: [Deny, Warn]}", "must not contain both Deny and Warn"},
		{"parameters by name", "{policyName: p, validationActions: [Deny], paramRef: {name: a, parameterNotFoundAction: Deny}}", ""},
		{"parameters without a name", "{policyName: p, validationActions: [Deny], paramRef: {parameterNotFoundAction: Deny}}", "one of name or selector must be specified"},
		{"what if there are none", "{policyName: p, validationActions: [Deny], paramRef: {name: a}}", "parameterNotFoundAction: Required value"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			check(t, read[v1.ValidatingAdmissionPolicyBinding](t, "spec: "+test.spec), test.want)
		})
	}
	deleting := "spec: {policyName: p, matchResources: {resourceRules: [{operations: [DELETE], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]}}"
	check(t, read[v1.MutatingAdmissionPolicyBinding](t, deleting), `Unsupported value: "DELETE"`)
}

// Defaults are part of the objects that clients read back.
func TestDefaults(t *testing.T) {
	c := read[v1.MutatingWebhookConfiguration](t, "webhooks: [{name: a.b.c, clientConfig: {service: {name: a, namespace: b}}, rules: [{operations: ['*']}]}]")
	h := c.Webhooks[0]
	if *h.FailurePolicy != v1.Fail || *h.MatchPolicy != v1.Equivalent || *h.TimeoutSeconds != 10 || *h.ReinvocationPolicy != v1.NeverReinvocationPolicy ||
		h.NamespaceSelector == nil || h.ObjectSelector == nil || *h.ClientConfig.Service.Port != 443 || *h.Rules[0].Scope != v1.AllScopes {
		t.Errorf("webhook = %+v", h)
	}
	p := read[v1.ValidatingAdmissionPolicy](t, "spec: {matchConstraints: {resourceRules: [{operations: ['*']}]}}")
	if match := p.Spec.MatchConstraints; *p.Spec.FailurePolicy != v1.Fail || *match.MatchPolicy != v1.Equivalent ||
		match.NamespaceSelector == nil || match.ObjectSelector == nil || *match.ResourceRules[0].Scope != v1.AllScopes {
		t.Errorf("policy = %+v", p.Spec)
	}
}
