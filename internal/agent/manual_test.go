package agent_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/manifests"
)

// examples returns the examples in YAML of a page of the documentation.
func examples(t *testing.T, page string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
		t.Fatalf("%s has %d examples", page, len(blocks))
	}
	return blocks
}

// Every example of the manual is what the manual says it is.
func TestExamplesOfTheManual(t *testing.T) {
	for _, block := range append(examples(t, "agent.md"), examples(t, "hosts.md")...) {
		var err error
		file := filepath.Join(t.TempDir(), "example.yaml")
		if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(block[1], "kind: Pod") {
			_, err = manifests.Read(filepath.Dir(file))
		} else {
			_, err = agent.LoadConfig(file)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}
