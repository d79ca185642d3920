package program

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/run/server"
)

// flagPattern matches a flag in a command line.
var flagPattern = regexp.MustCompile(`(?:^| )--([a-z][a-z0-9-]*)`)

// endPattern matches the end of a command: a pipe, a redirection or a comment.
var endPattern = regexp.MustCompile(` [|>#]`)

// The commands in the documentation have the flags that it uses. Flags of
// kubectl are not checked.
func TestDocumentedFlags(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	root := newCommand(streams)
	seen := 0
	for _, file := range documentation(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			words, isCommand := strings.CutPrefix(line, "$ certplane ")
			if !isCommand || strings.HasPrefix(words, "kubectl ") {
				continue
			}
			words = endPattern.Split(words, 2)[0]
			command, _, err := root.Find(strings.Fields(words))
			if err != nil {
				t.Errorf("%s: %q: %v", file, line, err)
				continue
			}
			for _, flag := range flagPattern.FindAllStringSubmatch(words, -1) {
				seen++
				if command.Flags().Lookup(flag[1]) == nil && command.InheritedFlags().Lookup(flag[1]) == nil {
					t.Errorf("%s: %q: %q has no flag --%s", file, line, command.CommandPath(), flag[1])
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d flags were found: is the documentation written otherwise now?", seen)
	}
}

// The README shows the output of a start.
func TestReadmeShowsAStart(t *testing.T) {
	var printed strings.Builder
	const dir = "/home/you/certplane/.data"
	announce(&printed, logging.Text, server.Ready{
		URL: "https://127.0.0.1:6443", Console: "https://127.0.0.1:6443/console/", DataDir: dir, Kubeconfig: dir + "/admin.kubeconfig",
		ClientCAEnd:  time.Date(2031, 11, 21, 0, 0, 0, 0, time.UTC),
		ServingCAEnd: time.Date(2036, 11, 19, 0, 0, 0, 0, time.UTC),
	})
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "$ make run\n...\n"+printed.String()+"```\n") {
		t.Errorf("the README shows something else than:\n%s", printed.String())
	}
}

func documentation(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../../*.md", "../../../docs/*.md", "../../../deploy/examples/*/README.md", "../../../deploy/examples/*/*/README.md", "../../../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return slices.Sorted(slices.Values(files))
}
