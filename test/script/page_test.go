package script

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestWhoMayPage has the conversations that docs/who-may.md shows.
func TestWhoMayPage(t *testing.T) { testPage(t, "who-may.md", 40) }

// TestPolicyPage has the conversations that docs/policy.md shows.
func TestPolicyPage(t *testing.T) { testPage(t, "policy.md", 25) }

// testPage runs the commands of a page of the documentation in their order, on a
// server of its own. Each must print what the page shows below it; "..." stands
// for any text. A page must have as many commands as want, or more.
func testPage(t *testing.T, page string, want int) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	commands := commandsOf(string(text))
	if len(commands) < want {
		t.Fatalf("%s has %d commands, want %d", page, len(commands), want)
	}
	p := params(true)
	p.Dir, p.Files = "", []string{filepath.Join("testdata", "page", "server.txtar")}
	p.Cmds["page"] = func(ts *testscript.TestScript, _ bool, _ []string) {
		for _, c := range commands {
			c.run(ts)
		}
	}
	testscript.Run(t, p)
}

// command is a command on a page, and what it prints.
type command struct{ line, output string }

// commandsOf returns the commands in the console blocks of a page.
func commandsOf(text string) []command {
	var all []command
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
		inCommand := false
		for line := range strings.Lines(block[1]) {
			first, begins := strings.CutPrefix(line, "$ ")
			switch last := len(all) - 1; {
			case begins && !inCommand:
				all = append(all, command{line: first})
				inCommand = isUnfinished(first)
			case inCommand:
				all[last].line += line
				inCommand = isUnfinished(all[last].line)
			default:
				all[last].output += line
			}
		}
	}
	return all
}

// isUnfinished reports whether a shell would read another line.
func isUnfinished(line string) bool {
	if strings.HasSuffix(line, "\\\n") || strings.Contains(line, "<<'END'\n") && !strings.HasSuffix(line, "\nEND\n") {
		return true
	}
	out, err := exec.Command("sh", "-n", "-c", line).CombinedOutput()
	return err != nil && strings.Contains(string(out), "end of file")
}

// watchEnded is what "kubectl wait" sometimes logs of the watch that it ends itself.
var watchEnded = regexp.MustCompile(`(?m)^I.* reflector\.go:.*"Warning: watch ended with error".*\n`)

// run runs the command and compares what it prints, on either stream. A command
// that was forbidden is tried again: the server learns of rights from watches.
func (c command) run(ts *testscript.TestScript) {
	poll(ts, "the right to "+c.line, func() error {
		err := ts.Exec("sh", "-c", "exec 2>&1\n"+c.line)
		got := watchEnded.ReplaceAllString(ts.ReadFile("stdout"), "")
		if c.pattern().MatchString(got) {
			return nil
		}
		if !strings.Contains(got, "orbidden") {
			ts.Fatalf("%s(%v) it prints\n%s\nand the page shows\n%s", c.line, err, got, c.output)
		}
		return errors.New(got)
	})
}

// pattern matches the output: the lines in it, with any text for "...".
func (c command) pattern() *regexp.Regexp {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(c.output), `\.\.\.`, `.*`)
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}
