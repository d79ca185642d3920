package hack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The modules of tests, tools and examples need what certplane needs in the same
// versions: of a library in another version, everything above it is compiled
// twice, which is half of Kubernetes for some. Left out is what continuous
// integration does not build: real Kubernetes and Vault, and the module that
// another one replaces.
func TestModulesNeedTheSame(t *testing.T) {
	main := required(t, "go.mod")
	verify, err := os.ReadFile("verify.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(verify), "for module in . ")
	list, _, ended := strings.Cut(list, ";")
	if !found || !ended {
		t.Fatal("verify.sh has no list of modules")
	}
	for module := range strings.FieldsSeq(list) {
		if module == "test/interop/approverpolicy/oracle" {
			continue
		}
		for path, version := range required(t, filepath.Join(module, "go.mod")) {
			if want, both := main[path]; both && version != want {
				t.Errorf("%s/go.mod needs %s %s, go.mod %s: take the newer one in both", module, path, version, want)
			}
		}
	}
}

// required returns the versions of a go.mod: its lines are PATH VERSION.
func required(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			versions[fields[0]] = fields[1]
		}
	}
	if len(versions) == 0 {
		t.Fatalf("%s needs nothing", file)
	}
	return versions
}
