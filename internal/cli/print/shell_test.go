package print_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/cli/print"
)

// A shell reads the quoted words unchanged.
func TestLine(t *testing.T) {
	words := []string{"a", "it's", "two words", "$HOME", "`x`", "", "-n", "a\nb", "--as=system:node:n1", "*"}
	line := print.CommandLine(append([]string{"printf", `%s|`}, words...)...)
	out, err := exec.Command("sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if want := strings.Join(words, "|") + "|"; string(out) != want {
		t.Errorf("%s wrote %q, want %q", line, out, want)
	}
	if got := print.CommandLine("certplane", "--name", "n1"); got != "certplane --name n1" {
		t.Errorf("words that need no quotes: %s", got)
	}
}
