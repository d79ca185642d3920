package crp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/crp"
)

// Each row is the spec of a policy, to which a selector is added if it has none.
func TestValidation(t *testing.T) {
	const canonical = `must be a valid, canonical dotted ASN.1 object identifier (e.g. "1.3.6.1.4.1.311.20.2.3")`
	const empty = "at least one of 'values' or 'validations' must be defined if field is 'required'"
	const covered = "this OID is covered by a dedicated allowed.commonName / allowed.subject.* field; configure it there instead of otherAttributes"
	key := func(fields string) string { return `constraints: {privateKey: {` + fields + `}}` }
	other := func(oid string) string {
		return `allowed: {otherNames: [{oid: "` + oid + `"}], subject: {otherAttributes: [{oid: "` + oid + `"}]}}`
	}
	oids := func(oid, why string) string {
		return `[spec.allowed.otherNames[0].oid: Invalid value: "` + oid + `": ` + why + `, spec.allowed.subject.otherAttributes[0].oid: Invalid value: "` + oid + `": ` + why + `]`
	}
	tests := []struct{ reason, spec, want string }{
		{"nothing", ``, ""},
		{"no selector", `selector: {}`, "spec.selector: Required value: one of issuerRef or namespace must be defined, hint: `{}` on either matches everything"},
		{"a namespace is enough", `selector: {namespace: {}}`, ""},
		{"bad label", `selector: {namespace: {matchLabels: {"a b": c}}}`, `spec.selector.namespace.matchLabels: Invalid value: {"a b":"c"}: key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		{"plugins", `plugins: {rego: {values: {a: b}}, cel: {}}`, `[spec.plugins: Unsupported value: "cel", spec.plugins: Unsupported value: "rego"]`},
		{"required without anything", `allowed: {dnsNames: {required: true}}`, `spec.allowed.dnsNames.values: Required value: ` + empty},
		{"required with an empty list", `allowed: {dnsNames: {required: true, values: []}}`, ""},
		{"required with a rule", `allowed: {dnsNames: {required: true, validations: [{rule: "true"}]}}`, ""},
		{"required single value", `allowed: {commonName: {required: true}, subject: {serialNumber: {required: true}}}`,
			`[spec.allowed.commonName.value: Required value: at least one of 'value' or 'validations' must be defined if field is 'required', ` +
				`spec.allowed.subject.serialNumber.value: Required value: at least one of 'value' or 'validations' must be defined if field is 'required']`},
		{"required by an object identifier", `allowed: {otherNames: [{oid: 1.2.3, required: true}], subject: {otherAttributes: [{oid: 1.2.3, required: true}]}}`,
			`[spec.allowed.otherNames[0].values: Required value: ` + empty + `, spec.allowed.subject.otherAttributes[0].values: Required value: ` + empty + `]`},
		{"a rule that does not compile", ruleSpec(`self ==`), `spec.allowed.dnsNames.validations[0]: Invalid value: "self ==": ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}` + "\n | self ==\n | .......^"},
		{"a rule that yields no bool", ruleSpec(`self`), `spec.allowed.dnsNames.validations[0]: Invalid value: "self": got string, wanted bool result type`},
		{"rules of all kinds of fields", `allowed: {commonName: {validations: [{rule: "1"}]}, otherNames: [{oid: 1.2.3, validations: [{rule: "2"}]}], subject: {otherAttributes: [{oid: 1.2.3, validations: [{rule: "true"}, {rule: "3"}]}]}}`,
			`[spec.allowed.commonName.validations[0]: Invalid value: "1": got int, wanted bool result type, spec.allowed.otherNames[0].validations[0]: Invalid value: "2": got int, wanted bool result type, ` +
				`spec.allowed.subject.otherAttributes[0].validations[1]: Invalid value: "3": got int, wanted bool result type]`},
		{"object identifiers", other("1.3.6.1.4.1.311.20.2.3"), ""},
		{"leading zero", other("1.02"), oids("1.02", canonical)},
		{"no number", other("1.x"), oids("1.x", canonical)},
		{"empty", other(""), oids("", canonical)},
		{"too large a number", other("1.99999999999999999999"), oids("1.99999999999999999999", canonical)},
		{"a plus sign", other("1.+2"), oids("1.+2", canonical)},
		{"negative", other("1.-2"), oids("1.-2", "OID arcs must be non-negative")},
		{"an attribute with a field of its own", other("2.5.4.10"), `spec.allowed.subject.otherAttributes[0].oid: Invalid value: "2.5.4.10": ` + covered},
		{"algorithm", key(`algorithm: DSA`), `spec.constraints.privateKey.algorithm: Unsupported value: "DSA": supported values: "RSA", "ECDSA", "Ed25519"`},
		{"sizes", key(`algorithm: RSA, minSize: 0, maxSize: 8192`), ""},
		{"sizes out of range", key(`minSize: -1, maxSize: 8193`),
			`[spec.constraints.privateKey.maxSize: Invalid value: 8193: must be between 0 and 8192 inclusive, spec.constraints.privateKey.minSize: Invalid value: -1: must be between 0 and 8192 inclusive]`},
		{"minimum over maximum", key(`minSize: 2, maxSize: 1`), `spec.constraints.privateKey.maxSize: Invalid value: 1: maxSize must be the same value as minSize or larger`},
		{"sizes of Ed25519", key(`algorithm: Ed25519, minSize: 1, maxSize: 1`),
			`[spec.constraints.privateKey.maxSize: Invalid value: 1: maxSize cannot be defined with algorithm constraint Ed25519, spec.constraints.privateKey.minSize: Invalid value: 1: minSize cannot be defined with algorithm constraint Ed25519]`},
		{"durations", `constraints: {minDuration: 1h, maxDuration: 1h}`, ""},
		{"shortest over longest", `constraints: {minDuration: 2h, maxDuration: 1h}`, `spec.constraints.maxDuration: Invalid value: "1h0m0s": maxDuration must be the same value as minDuration or larger`},
		{"negative durations", `constraints: {minDuration: -1h, maxDuration: -1h}`,
			`[spec.constraints.maxDuration: Invalid value: "-1h0m0s": maxDuration must be a value greater or equal to 0, spec.constraints.minDuration: Invalid value: "-1h0m0s": minDuration must be a value greater or equal to 0]`},
		{"the order of errors", `{plugins: {a: {}}, selector: {}, allowed: {commonName: {required: true}, uris: {required: true}}, constraints: {minDuration: -1h}}`,
			"[spec.plugins: Unsupported value: \"a\", spec.selector: Required value: one of issuerRef or namespace must be defined, hint: `{}` on either matches everything, " +
				"spec.allowed.uris.values: Required value: " + empty + ", spec.allowed.commonName.value: Required value: at least one of 'value' or 'validations' must be defined if field is 'required', " +
				`spec.constraints.minDuration: Invalid value: "-1h0m0s": minDuration must be a value greater or equal to 0]`},
	}
	for _, tc := range tests {
		spec := tc.spec
		if !strings.Contains(spec, "selector:") {
			spec += "\nselector: {issuerRef: {}}"
		}
		compiled, errs := crp.Compile(object(t, "p", spec))
		var got string
		if len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != tc.want || compiled == nil {
			t.Errorf("%s:\ngot  %s\nwant %s", tc.reason, got, tc.want)
		}
	}
}

func TestReadiness(t *testing.T) {
	declared := object(t, "p", `selector: {}`)
	declared.Generation = 7
	compiled, _ := crp.Compile(declared)
	want := metav1.Condition{Type: "Ready", Status: "True", ObservedGeneration: 7, Reason: "Ready", Message: "CertificateRequestPolicy is ready for approval evaluation"}
	if diff := cmp.Diff(want, compiled.Readiness()); diff != "" {
		t.Error(diff)
	}
	want = metav1.Condition{Type: "Ready", Status: "False", Reason: "NotReady", Message: `CertificateRequestPolicy is not ready for approval evaluation: spec.plugins: Unsupported value: "rego"`}
	if diff := cmp.Diff(want, policy(t, "p", plugin).Readiness()); diff != "" {
		t.Error(diff)
	}
}

// A policy keeps nothing of the object, and can get another status.
func TestImmutable(t *testing.T) {
	declared := object(t, "p", `{selector: {issuerRef: {name: ca}}, allowed: {isCA: true, dnsNames: {values: [a]}}, constraints: {maxDuration: 1h}}`)
	compiled, _ := crp.Compile(declared)
	declared.Spec.Selector.IssuerRef.Name, (*declared.Spec.Allowed.DNSNames.Values)[0] = new("x"), "x"
	*declared.Spec.Allowed.IsCA, declared.Spec.Constraints.MaxDuration.Duration = false, 0
	declared.Status.Conditions[0].Status = metav1.ConditionFalse
	a := asks{dns: []string{"a"}, isCA: true, duration: 1}
	a.issuer.Name = "ca"
	outcome := func(p *crp.Policy) v1alpha1.DecisionOutcome {
		return must(crp.Decide([]*crp.Policy{p}, a.request(t), everybody)).Outcome
	}
	if got := outcome(compiled); got != v1alpha1.OutcomeApprove {
		t.Errorf("after a change of the object: %s", got)
	}
	if got := outcome(compiled.WithStatus(&declared.Status)); got != v1alpha1.OutcomeLeave || outcome(compiled) != v1alpha1.OutcomeApprove {
		t.Errorf("not ready: %s", got)
	}
}
