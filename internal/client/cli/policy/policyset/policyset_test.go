package policyset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
)

func policy(name, spec string) string {
	return "apiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicy\nmetadata: {name: " + name + "}\nspec:\n" + spec
}

const fine = "  effect: Limit\n  match: {signers: [\"*\"]}\n"

func read(t *testing.T, text string) *policyset.Files {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := policyset.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What the API would refuse, a file reports with its line; the schema of the API
// included.
func TestProblems(t *testing.T) {
	const exception = "apiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicyException\nmetadata: {name: x}\nspec:\n"
	tests := []struct {
		reason, text string
		want         []string
	}{
		{"a good policy", policy("p", fine), nil},
		{"a misspelt kind", strings.Replace(policy("p", fine), "Policy", "Polcy", 1), []string{`2: kind: "CertificatePolcy" is not a kind of certplane.dev: use CertificatePolicy or CertificatePolicyException`}},
		{"another version", strings.Replace(policy("p", fine), "v1alpha1", "v1", 1), []string{`1: apiVersion: "certplane.dev/v1" must be "certplane.dev/v1alpha1"`}},
		{"another group", strings.Replace(policy("p", fine), "certplane.dev", "certplane.io", 1), []string{`1: apiVersion: "certplane.io/v1alpha1" must be "certplane.dev/v1alpha1"`}},
		{"a policy of approver-policy", "apiVersion: policy.cert-manager.io/v1alpha1\nkind: CertificateRequestPolicy\nmetadata: {name: a}\n", []string{"2: kind: policies of approver-policy (policy.cert-manager.io) are not evaluated here: omit the file"}},
		{"other kinds", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", nil},
		{"YAML that is none", "a: [", []string{"1: did not find expected node content"}},
		{"an unknown field", policy("p", fine+"  efect: Limit\n"), []string{`7: unknown field "spec.efect"`}},
		{"a name that is none", policy("P_1", fine), []string{`3: metadata.name: "P_1" is not a name: a lowercase RFC 1123 subdomain must consist of`}},
		{"an effect that does not exist", policy("p", "  effect: Deny\n  match: {signers: [\"*\"]}\n"), []string{`5: spec.effect: Unsupported value: "Deny": supported values: "Allow", "Limit", "DenyRest"`}},
		{"what only the schema knows", policy("p", fine+"  description: "+strings.Repeat("x", 1025)+"\n"), []string{"7: spec.description: Too long"}},
		{"a set with a value twice", policy("p", "  effect: Limit\n  match: {signers: [a.io/b, a.io/b]}\n"), []string{"6: spec.match.signers[1]: Duplicate value"}},
		{"an Allow without usages", policy("p", "  effect: Allow\n  match: {signers: [\"*\"]}\n"), []string{"4: spec.certificate.usages: Required value: an Allow policy must list the usages that it permits"}},
		{"an expression that does not compile", policy("p", fine+"  rules:\n  - name: a\n    expression: request.dnsName == ''\n"), []string{"9: spec.rules[0].expression: Invalid value:"}},
		{"the same name twice", policy("p", fine) + "---\n" + policy("p", fine), []string{`10: metadata.name: another CertificatePolicy is named "p", in p.yaml:1`}},
		{"an exception that names no policy of these", exception + "  policies: [q]\n  items: [certificate.names.dns]\n  match: {signers: [\"*\"], namespaces: {names: [a]}}\n  reason: r\n  notAfter: 2026-01-01T00:00:00Z\n", []string{`warning 5: spec.policies[0]: these files contain no policy "q"`}},
		{"an exception without an end", exception + "  policies: [q]\n  items: [certificate.names.dns]\n  match: {signers: [\"*\"], namespaces: {names: [a]}}\n  reason: r\n", []string{"4: spec.notAfter: Required value", `warning 5: spec.policies[0]: these files contain no policy "q"`}},
		{"a Shadow policy that replaces none of these", policy("p", fine+"  mode: Shadow\n  replaces: q\n"), []string{`warning 8: spec.replaces: these files contain no policy "q"`}},
		{"users that begin with a star", policy("q", "  effect: Limit\n  match: {signers: [\"*\"], requesters: {users: [\"*-admin\"]}}\n"), []string{"warning 6: spec.match.requesters.users[0]: a name that begins with *"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			files := read(t, tt.text)
			var got []string
			for _, p := range files.Problems {
				_, text, _ := strings.Cut(p.Error.Error(), "p.yaml:")
				if p.Warning {
					text = "warning " + text
				}
				got = append(got, text)
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], filepath.Dir(files.Problems[i].File)+"/", "")
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], tt.want[i])
				}
			}
			hasErrors := len(tt.want) > 0 && !strings.HasPrefix(tt.want[0], "warning")
			if (files.Err() != nil) != hasErrors {
				t.Errorf("Err is %v", files.Err())
			}
		})
	}
}

// A policy of a file has the defaults that the API sets, so that its digest is
// the same.
func TestDefaults(t *testing.T) {
	files := read(t, policy("p", fine+"  approval: {people: {count: 2}, mode: People}\n"))
	spec := files.Policies[0].Object.Spec
	if spec.Mode != v1alpha1.PolicyEnforce || spec.Disclosure != v1alpha1.DiscloseFull || spec.Approval.People.DistinctBy != "Username" {
		t.Errorf("mode %q, disclosure %q, distinctBy %q", spec.Mode, spec.Disclosure, spec.Approval.People.DistinctBy)
	}
}

func TestSet(t *testing.T) {
	files := read(t, policy("b", fine)+"---\n"+policy("a", fine))
	var names []string
	for _, p := range files.Set().Policies() {
		names = append(names, p.Name())
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Error(diff)
	}
}
