package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
)

const policy = "apiVersion: certplane.dev/v1alpha1\nkind: CertificatePolicy\nmetadata: {name: p}\n"

func TestParse(t *testing.T) {
	tests := []struct {
		reason, text string
		want         []string // KIND/NAME:LINE
		refused      string
	}{
		{reason: "nothing"},
		{reason: "comments alone", text: "# a\n---\n# b\n"},
		{reason: "two documents", text: "# a\n---\n" + policy + "--- # b\n\n" + strings.ReplaceAll(policy, "p}", "q}"), want: []string{"CertificatePolicy/p:3", "CertificatePolicy/q:8"}},
		{reason: "a document behind its separator", text: "--- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n", want: []string{"Node/n1:1"}},
		{reason: "a separator without an end", text: policy + "---", want: []string{"CertificatePolicy/p:1"}},
		{reason: "dashes in a text", text: "apiVersion: v1\nkind: Node\nmetadata:\n  name: |-\n    -----BEGIN\n", want: []string{"Node/-----BEGIN:1"}},
		{reason: "a list", text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a}\n- {apiVersion: v1, kind: Pod, metadata: {name: b}}\n", want: []string{"Node/a:4", "Pod/b:7"}},
		{reason: "JSON", text: "{\n\"apiVersion\": \"v1\",\n\"kind\": \"NodeList\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}}]}", want: []string{"Node/a:4"}},
		{reason: "no kind", text: "\n---\nmetadata: {name: a}\n", refused: "f.yaml:3: kind is missing"},
		{reason: "no version", text: "kind: Node\n", refused: "f.yaml:1: apiVersion is missing"},
		{reason: "a text", text: "hello\n", refused: "f.yaml:1: is not an object with apiVersion, kind and metadata"},
		{reason: "a name that YAML reads as something else", text: "apiVersion: v1\nkind: Node\nmetadata:\n  name: no\n", refused: "f.yaml:4: metadata.name: must be a text, not true or false: put it in quotes"},
		{reason: "bad YAML in the second document", text: policy + "---\na: [\n", refused: "f.yaml:5: "},
		{reason: "a field given twice", text: policy + "metadata: {name: q}\n", refused: `f.yaml:4: the field "metadata" is given twice`},
		{reason: "fields that replace merged ones", text: "apiVersion: v1\nkind: Node\nmetadata: &m {name: a1}\nspec: {<<: *m, name: b}\n", want: []string{"Node/a1:1"}},
		{reason: "a merge behind fields", text: "apiVersion: v1\nkind: Node\nmetadata: &m {name: a1}\nspec: {name: b, <<: *m}\n", refused: "f.yaml:4: << must be the first field"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			documents, err := manifest.Parse("f.yaml", []byte(tt.text))
			if err != nil || tt.refused != "" {
				if err == nil || tt.refused == "" || !strings.HasPrefix(err.Error(), tt.refused) {
					t.Fatalf("error %v, want %q", err, tt.refused)
				}
				return
			}
			var got []string
			for _, d := range documents {
				got = append(got, d.Errorf("", "").File+"|"+d.Kind+"/"+d.Name+":"+lineText(d.Line))
			}
			for i := range tt.want {
				tt.want[i] = "f.yaml|" + tt.want[i]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func lineText(line int) string { return string(rune('0' + line)) }

// Mistakes are reported with their line, all at once.
func TestDecode(t *testing.T) {
	const head = policy + "spec:\n  effect: Allow\n"
	tests := []struct {
		reason, text, want string
	}{
		{"nothing wrong", head, ""},
		{"unknown field", head + "  mach: {}\n", `f.yaml:6: unknown field "spec.mach": did you mean match?`},
		{"another case", head + "  Match: {}\n", `f.yaml:6: unknown field "spec.Match": did you mean match?`},
		{"an unknown field of an item", head + "  rules:\n  - name: a\n    expresion: x\n", `f.yaml:8: unknown field "spec.rules[0].expresion": did you mean expression?`},
		{"a misspelt list", head + "  certificate:\n    names: {dns: {zone: [a]}}\n", `f.yaml:7: unknown field "spec.certificate.names.dns.zone": did you mean zones?`},
		{"two", head + "  b: 1\n  match:\n    a: 1\n", "f.yaml:6: unknown field \"spec.b\"\nf.yaml:8: unknown field \"spec.match.a\""},
		{"in what an anchor repeats", head + "  match: &m {signers: [a], a: 1}\n  replaces: x\n", `f.yaml:6: unknown field "spec.match.a"`},
		{"another type", head + "  match:\n    signers: a\n", "f.yaml:7: spec.match.signers: must be a list, not a text"},
		{"a number", head + "  certificate:\n    names: {max: many}\n", "f.yaml:7: spec.certificate.names.max: must be a whole number, not a text"},
		{"a value that is not a duration", head + "  certificate:\n    lifetime:\n      max: 90d\n", `f.yaml:8: spec.certificate.lifetime.max: time: unknown unit "d" in duration "90d"; write it in hours, minutes and seconds, such as 2160h or 1h30m`},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			documents, err := manifest.Parse("f.yaml", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := documents[0].Decode(&v1alpha1.CertificatePolicy{}); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestLineOf(t *testing.T) {
	const text = policy + `spec:
  match: &m
    signers:
    - a
    - b
  rules:
  - name: x
  - name: y
    field: z
  certificate: {<<: *m, names: {dns: {max: 1}}}
`
	documents, err := manifest.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"": 1, "spec": 4, "spec.match.signers[1]": 8, "spec.rules[1].field": 12, "spec.rules[y].field": 12,
		"spec.rules[1].expression": 11, "spec.certificate.names.dns.max": 13, "spec.certificate.signers[0]": 7, "nothing": 1,
	} {
		if got := documents[0].LineOf(path); got != want {
			t.Errorf("%q is in line %d, want %d", path, got, want)
		}
	}
}

// Folders are read with the folders in them, but nothing hidden.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a/c.yml", "a.json", "README.md", ".git/x.yaml", ".y.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("# "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := manifest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i], _ = filepath.Rel(dir, files[i])
	}
	if diff := cmp.Diff([]string{"a/c.yml", "a.json", "b.yaml"}, files); diff != "" {
		t.Error(diff)
	}
	if _, err := manifest.Files(t.TempDir()); err == nil {
		t.Error("an empty folder is no error")
	}
	if _, err := manifest.Read(filepath.Join(dir, "none.yaml")); !os.IsNotExist(err) {
		t.Errorf("a file that does not exist: %v", err)
	}
}
