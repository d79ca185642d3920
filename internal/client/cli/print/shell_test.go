package print_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// A shell reads the quoted words unchanged.
func TestLine(t *testing.T) {
	words := []string{
		"a", "it's", "two words", "$HOME", "`x`", "", "-n", "a\nb", "--as=system:node:n1", "*",
		"\x1b[2J", "100%\\n\r", "it's\tü", "end\n", "a\nb\n\n", "a\u202eb", "\u009b1m", "\xff\x1b",
	}
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

// A terminal obeys no character of a quoted word.
func TestQuotedIsPrintable(t *testing.T) {
	for _, word := range []string{"\x1b]0;title\x07", "web\rcertplane approve evil", "a\u202eb", "a\nb", "\u009b1m", "\xff\x1b"} {
		quoted := print.Quote(word)
		if i := strings.IndexFunc(quoted, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is quoted as %q", word, quoted)
		}
	}
}

// A name that looks like a flag is not read as one.
func TestCommand(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []string
	}{
		{"web", []string{"certplane", "approve", "web", "--context", "a"}},
		{"--kubeconfig=evil", []string{"certplane", "approve", "--context", "a", "--", "--kubeconfig=evil"}},
	} {
		if got := print.Command([]string{"certplane", "approve"}, []string{tc.name}, "--context", "a"); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.name, got, tc.want)
		}
	}
}
