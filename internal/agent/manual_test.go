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

// Every example of the manual is what the manual says it is.
func TestExamplesOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
		t.Fatalf("the manual has %d examples", len(blocks))
	}
	for _, block := range blocks {
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
