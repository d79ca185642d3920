package script

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/certplane/certplane/internal/apitest/docpage"
)

// TestWhoMayPage has the conversations that docs/who-may.md shows.
func TestWhoMayPage(t *testing.T) { testPage(t, "who-may.md", 40) }

// TestPolicyPage has the conversations that docs/policy.md shows.
func TestPolicyPage(t *testing.T) { testPage(t, "policy.md", 25) }

// TestCheckPage has the first conversation that docs/check.md shows: the others are about other
// machines and clusters.
func TestCheckPage(t *testing.T) { testPart(t, "check.md", "## On the server's machine", 1) }

// testPage runs the commands of a page of the documentation in their order, on a
// server of its own. Each must print what the page shows below it; "..." stands
// for any text. A page must have as many commands as want, or more.
func testPage(t *testing.T, page string, want int) { testPart(t, page, "", want) }

// testPart is testPage for the part of a page before a heading.
func testPart(t *testing.T, page, before string, want int) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	part := string(text)
	if before != "" {
		var found bool
		if part, _, found = strings.Cut(part, before); !found {
			t.Fatalf("%s has no heading %q", page, before)
		}
	}
	commands := docpage.Commands(part)
	if len(commands) < want {
		t.Fatalf("%s has %d commands, want %d", page, len(commands), want)
	}
	p := params(true)
	p.Dir, p.Files = "", []string{filepath.Join("testdata", "page", "server.txtar")}
	p.Cmds["page"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		for _, c := range commands {
			runCommand(ts, c)
		}
	}
	testscript.Run(t, p)
}

// watchEnded is what "kubectl wait" sometimes logs of the watch that it ends itself.
var watchEnded = regexp.MustCompile(`(?m)^I.* reflector\.go:.*"Warning: watch ended with error".*\n`)

// runCommand runs a command and compares what it prints, on either stream. A command
// that was forbidden is tried again: the server learns of rights from watches.
func runCommand(ts *testscript.TestScript, c docpage.Command) {
	poll(ts, "the right to "+c.Line, func() error {
		err := ts.Exec("sh", "-c", "exec 2>&1\n"+c.Line)
		got := watchEnded.ReplaceAllString(ts.ReadFile("stdout"), "")
		if c.Pattern().MatchString(got) {
			return nil
		}
		if !strings.Contains(got, "orbidden") {
			ts.Fatalf("%s(%v) it prints\n%s\nand the page shows\n%s", c.Line, err, got, c.Output)
		}
		return errors.New(got)
	})
}
