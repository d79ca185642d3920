package certmanager

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// object parses YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func write(operation admissionv1.Operation, subresource string) Request {
	return Request{
		Operation: operation, Subresource: subresource, Namespace: "team",
		Kind:     schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateRequest"},
		Resource: schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"},
		User:     authenticationv1.UserInfo{Username: "alice", Groups: []string{"b", "a"}},
	}
}

var checks = New(
	&cluster{versions: []string{"example.com/v1"}, resources: map[string][]metav1.APIResource{"example.com/v1": {{Name: "vaults", Kind: "Vault", Namespaced: true}}}},
	func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
		return what == rightToApprove("vaults.example.com/team.allowed"), nil
	})

// A resource is checked by the rules of its own kind, or refused.
func TestKindAndResourceBelongTogether(t *testing.T) {
	for reason, edit := range map[string]func(*Request){
		"another kind":       func(r *Request) { r.Kind.Kind = "Certificate" },
		"another group":      func(r *Request) { r.Kind.Group = "example.com" },
		"no resource":        func(r *Request) { r.Resource.Resource = "" },
		"no object":          func(r *Request) { r.Object = nil },
		"an object of junk":  func(r *Request) { r.Object.Object["spec"] = "junk" },
		"no resource at all": func(r *Request) { r.Resource = schema.GroupVersionResource{} },
	} {
		r := write(admissionv1.Create, "")
		r.Object = object(t, `spec: {username: alice, groups: [a, b], issuerRef: {name: x}, request: eA==}`)
		edit(&r)
		if _, err := checks.Validate(t.Context(), r); err == nil {
			t.Errorf("%s is let through", reason)
		}
	}
}

// Writing days in a duration is a common mistake, and the error has the field.
func TestWrongDuration(t *testing.T) {
	const rest = `issuerRef: {name: x}, secretName: x, dnsNames: [a.b], `
	for spec, want := range map[string]string{
		`duration: 90d`:                   `spec.duration: Invalid value: "90d": time: unknown unit "d" in duration "90d"; write it in hours, minutes and seconds, such as 2160h or 1h30m`,
		`duration: 90h, renewBefore: 30d`: `spec.renewBefore: Invalid value: "30d": time: unknown unit`,
		`renewal: {windows: [{cron: "* * * * *", windowDuration: 4h}, {windowDuration: "4"}]}`: `spec.renewal.windows[1].windowDuration: Invalid value: "4"`,
		`duration: 90h, foo: 1`: `unknown field "spec.foo"`,
	} {
		r := write(admissionv1.Create, "")
		r.Kind.Kind, r.Resource.Resource = "Certificate", "certificates"
		r.Object = object(t, `spec: {`+rest+spec+`}`)
		if _, err := checks.Validate(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", spec, err, want)
		}
	}
}

// All errors are returned together.
func TestErrorsAreJoined(t *testing.T) {
	r := write(admissionv1.Update, "status")
	r.Old = object(t, `spec: {username: bob, issuerRef: {name: denied, kind: Vault, group: example.com}, request: eA==}`)
	r.Object = object(t, `{spec: {issuerRef: {name: denied, kind: Vault, group: example.com}, request: eA==}, status: {conditions: [{type: Approved, status: "False"}]}}`)
	_, err := checks.Validate(t.Context(), r)
	if err == nil {
		t.Fatal("let through")
	}
	at := 0
	for _, want := range []string{
		"spec.username: Forbidden: username identity cannot be changed once set",
		`user "alice" does not have permissions to set approved/denied conditions for issuer {denied Vault example.com}`,
		`"Approved" condition may only be set to True`,
		"cannot change spec after creation",
	} {
		i := strings.Index(err.Error(), want)
		if i < at {
			t.Errorf("%q is missing or too early in\n%v", want, err)
		}
		at = max(at, i)
	}
}

// Only the step to a decision needs permission.
func TestWhoIsAsked(t *testing.T) {
	const (
		open     = `{spec: {issuerRef: {name: NAME, kind: Vault, group: example.com}}, status: {}}`
		ready    = `{spec: {issuerRef: {name: NAME, kind: Vault, group: example.com}}, status: {conditions: [{type: Ready, status: "True"}]}}`
		approved = `{spec: {issuerRef: {name: NAME, kind: Vault, group: example.com}}, status: {conditions: [{type: Approved, status: "True"}]}}`
		more     = `{spec: {issuerRef: {name: NAME, kind: Vault, group: example.com}}, status: {conditions: [{type: Approved, status: "True"}, {type: Ready, status: "True"}]}}`
	)
	tests := []struct {
		reason, subresource, old, object, issuer string
		ok                                       bool
	}{
		{"approved", "status", open, approved, "allowed", true},
		{"approved without permission", "status", open, approved, "other", false},
		{"another condition", "status", open, ready, "other", true},
		{"was approved", "status", approved, more, "other", true},
		{"not through the status", "", open, approved, "other", true}, // the decision is not stored
	}
	for _, tc := range tests {
		r := write(admissionv1.Update, tc.subresource)
		r.Old, r.Object = object(t, strings.ReplaceAll(tc.old, "NAME", tc.issuer)), object(t, strings.ReplaceAll(tc.object, "NAME", tc.issuer))
		if _, err := checks.Validate(t.Context(), r); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}

// If the authorizer returns an error, the decision is refused, and the
// authorizer is not called again.
func TestNoAnswer(t *testing.T) {
	asked := 0
	broken := New(checks.approval.resources.discovery, func(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
		asked++
		return asked > 1, errors.New("broken")
	})
	r := write(admissionv1.Update, "status")
	r.Old = object(t, `{spec: {issuerRef: {name: x, kind: Vault, group: example.com}}}`)
	r.Object = object(t, `{spec: {issuerRef: {name: x, kind: Vault, group: example.com}}, status: {conditions: [{type: Denied, status: "True"}]}}`)
	if _, err := broken.Validate(t.Context(), r); err == nil || asked != 1 {
		t.Errorf("asked %d times, got %v", asked, err)
	}
}

// Other webhooks run between the two.
func TestRequesterIsCheckedAgain(t *testing.T) {
	r := write(admissionv1.Create, "")
	r.Object = object(t, `spec: {username: mallory, uid: "0", groups: [x], extra: {a: [b]}}`)
	if err := checks.Mutate(r); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedMap(r.Object.Object, "spec"); got["username"] != "alice" || got["uid"] != nil || got["extra"] != nil {
		t.Errorf("spec is %v", got)
	}
	groups := []any{"a", "b"} // the order does not matter
	if err := unstructured.SetNestedSlice(r.Object.Object, groups, "spec", "groups"); err != nil {
		t.Fatal(err)
	}
	if _, err := checks.Validate(t.Context(), r); err == nil || strings.Contains(err.Error(), "identity") {
		t.Errorf("the same identity: %v", err)
	}
	if err := unstructured.SetNestedField(r.Object.Object, "mallory", "spec", "username"); err != nil {
		t.Fatal(err)
	}
	if _, err := checks.Validate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "spec.username: Forbidden: username identity must be that of the requester") {
		t.Errorf("somebody else's identity: %v", err)
	}
}

// Fields that the definitions' schemas leave open are still checked for
// mistakes.
func TestUnknownFields(t *testing.T) {
	const issuer = `spec: {acme: {server: a, privateKeySecretRef: {name: b}, solvers: [{http01: {ingress: {podTemplate: {spec: {FIELD: {}}}}}}]}}`
	of := func(field string) *unstructured.Unstructured {
		return object(t, strings.ReplaceAll(issuer, "FIELD", field))
	}
	write := func(operation admissionv1.Operation, object, old *unstructured.Unstructured) error {
		_, err := checks.Validate(t.Context(), Request{
			Operation: operation, Object: object, Old: old,
			Kind:     schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "ClusterIssuer"},
			Resource: schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "clusterissuers"},
		})
		return err
	}
	if err := write(admissionv1.Create, of("affinity"), nil); err != nil {
		t.Errorf("a field that exists: %v", err)
	}
	const path = `unknown field "spec.acme.solvers[0].http01.ingress.podTemplate.spec.afinity"`
	for reason, err := range map[string]error{
		"created": write(admissionv1.Create, of("afinity"), nil),
		"changed": write(admissionv1.Update, of("afinity"), of("affinity")),
	} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if err := write(admissionv1.Update, of("afinity"), of("afinity")); err != nil {
		t.Errorf("stored, and only its status changes: %v", err)
	}
	if err := write(admissionv1.Update, of("affinity"), of("afinity")); err != nil {
		t.Errorf("mended: %v", err)
	}
}
