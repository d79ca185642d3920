package certpolicy_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// fieldCase shows that a field of a policy is enforced: a request that differs
// from an ordinary one only in ask is decided otherwise with the field than
// without it.
type fieldCase struct {
	reason string
	// spec is the policy p that has the field. If it has no effect, it is a Limit
	// for every signer. beside are other policies; a Limit stands beside one that
	// permits everything.
	spec   string
	beside map[string]string
	kind   v1alpha1.RequestKind
	ask    func(*asked)
	// ordinary is what the ordinary request gets with the field. Default:
	// Approve.
	ordinary string
	// with and without are what the request gets with the field and without.
	// Default of without: Approve.
	with, without string
	// instead replaces the field, if a policy without it is not valid.
	instead any
	// message is a part of the decision's message with the field, and not without.
	message string
}

// TestFields: each field of a policy, and each field below, is enforced. The
// fields are those of the type: one without a case fails.
func TestFields(t *testing.T) {
	cases := fieldCases()
	want := slices.DeleteFunc(leaves(reflect.TypeFor[v1alpha1.CertificatePolicySpec](), ""), func(field string) bool {
		return field == "approval.issueOnCreate" // says when, not what: TestIssuesOnCreate
	})
	for _, field := range want {
		if len(cases[field]) == 0 {
			t.Errorf("the field %s has no case: nothing shows that it is enforced", field)
		}
	}
	for field := range cases {
		if !slices.Contains(want, field) {
			t.Errorf("there is no field %s", field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(cases)) {
		for _, tc := range cases[field] {
			t.Run(strings.TrimSuffix(field+" "+tc.reason, " "), func(t *testing.T) { tc.run(t, field) })
		}
	}
}

func (tc *fieldCase) run(t *testing.T, field string) {
	with, without := tc.policies(t, field)
	ordinary := tc.ordinary
	if ordinary == "" {
		ordinary = "Approve"
	}
	kind := tc.kind
	if kind == "" {
		kind = csrs
	}
	if got := brief(decide(t, set(t, with), of(kind))); got != ordinary {
		t.Errorf("an ordinary request gets %s, want %s", got, ordinary)
	}
	request := of(kind).but(tc.ask)
	strict, lenient := decide(t, set(t, with), request), decide(t, set(t, without), request)
	if got := brief(strict); got != tc.with {
		t.Errorf("with the field: %s, want %s\n%s", got, tc.with, strict.Message)
	}
	want := tc.without
	if want == "" {
		want = "Approve"
	}
	if got := brief(lenient); got != want {
		t.Errorf("without the field: %s, want %s\n%s", got, want, lenient.Message)
	}
	if tc.message != "" && (!strings.Contains(strict.Message, tc.message) || strings.Contains(lenient.Message, tc.message)) {
		t.Errorf("the messages are %q and %q, want %q only with the field", strict.Message, lenient.Message, tc.message)
	}
}

// policies returns the policies with the field and without it.
func (tc *fieldCase) policies(t *testing.T, field string) (with, without map[string]string) {
	t.Helper()
	spec := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(tc.spec), &spec); err != nil {
		t.Fatalf("%v\n%s", err, tc.spec)
	}
	if spec["effect"] == nil {
		spec["effect"] = "Limit"
	}
	if spec["match"] == nil {
		spec["match"] = map[string]any{"signers": []any{"*"}}
	} else if match := spec["match"].(map[string]any); match["signers"] == nil {
		match["signers"] = []any{"*"}
	}
	with = maps.Clone(tc.beside)
	if with == nil {
		with = map[string]string{}
	}
	if spec["effect"] == "Limit" && tc.beside == nil {
		with["everything"] = everything
	}
	without = maps.Clone(with)
	with["p"] = text(t, spec)
	if !change(spec, strings.Split(field, "."), tc.instead) {
		t.Fatalf("the policy does not have the field %s:\n%s", field, with["p"])
	}
	without["p"] = text(t, spec)
	return with, without
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// change removes or replaces the field at path, in all elements of lists. It
// reports whether there was one.
func change(in any, path []string, instead any) bool {
	object, isObject := in.(map[string]any)
	if !isObject {
		return false
	}
	name, isList := strings.CutSuffix(path[0], "[]")
	value, exists := object[name]
	switch {
	case !exists:
		return false
	case isList:
		found := false
		for _, one := range value.([]any) {
			found = change(one, path[1:], instead) || found
		}
		return found
	case len(path) > 1:
		return change(value, path[1:], instead)
	case instead != nil:
		object[name] = instead
	default:
		delete(object, name)
	}
	return true
}

// leaves returns the paths of all fields that have values. Elements of lists of
// objects are [].
func leaves(of reflect.Type, prefix string) []string {
	var paths []string
	for field := range fieldsOf(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		is, path := field.Type, prefix+name
		if name == "" { // inline
			paths = append(paths, leaves(is, prefix)...)
			continue
		}
		if is.Kind() == reflect.Slice && is.Elem().Kind() == reflect.Struct {
			is, path = is.Elem(), path+"[]"
		}
		if is.Kind() == reflect.Pointer {
			is = is.Elem()
		}
		if is.Kind() == reflect.Struct && is.PkgPath() == reflect.TypeFor[v1alpha1.CertificatePolicy]().PkgPath() {
			paths = append(paths, leaves(is, path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

func fieldsOf(of reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range of.NumField() {
			if !yield(of.Field(i)) {
				return
			}
		}
	}
}

// TestLeaves: the fields are found.
func TestLeaves(t *testing.T) {
	paths := leaves(reflect.TypeFor[v1alpha1.CertificatePolicySpec](), "")
	for _, path := range []string{
		"effect", "match.namespaces.selector", "match.requesters.users", "match.requesters.excluded.groups", "match.access[].verb",
		"certificate.subject.commonName.inNames", "certificate.subject.commonName.patterns", "certificate.subject.other[].oid",
		"certificate.lifetime.max", "approval.people.from[].count", "rules[].kinds",
	} {
		if !slices.Contains(paths, path) {
			t.Errorf("%s is not found", path)
		}
	}
	if len(paths) < 100 {
		t.Errorf("there are only %d fields", len(paths))
	}
}

// TestStatusIsNotRead: only the specification of a policy decides, and its
// description does not.
func TestStatusIsNotRead(t *testing.T) {
	plain, other := policy(t, "p", web), policy(t, "p", web)
	other.Status = v1alpha1.CertificatePolicyStatus{
		ObservedGeneration: 1, Digest: "old", Decisions: &v1alpha1.PolicyDecisionCounts{Denied: 9},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Invalid"}},
	}
	if a, b := compiled(t, plain).Digest(), compiled(t, other).Digest(); a != b {
		t.Errorf("the digests are %s and %s", a, b)
	}
	if got := brief(setOf(plain).Decide(of(csrs).input(t))); got != brief(setOf(other).Decide(of(csrs).input(t))) || got != "Approve" {
		t.Errorf("the decision is %s", got)
	}
}
