package script

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/certplane/certplane/internal/apitest/docpage"
)

// TestPages runs the commands of the pages of the documentation, in the order of each
// page. Each command must print what the page shows below it; "..." stands for any text.
// testdata/page/NAME.txtar has what a page needs to be there before. shared.txtar names
// pages that share a server; all others have default.txtar, with a server of their own.
// A block that cannot run here has a line "<!-- not run: REASON -->" above it.
// With -v it prints how long the commands of each page have taken.
func TestPages(t *testing.T) {
	pages, ca := documentation(t), startACME(t)
	p := params(true)
	p.Dir, p.Files = "", scriptsOfPages(t, pages)
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		ca.tell(env)
		env.Values[stand{}] = &[]string{}
		if err := linkClone(env.WorkDir); err != nil {
			return err
		}
		return setUp(env)
	}
	p.Cmds["place"] = place
	p.Cmds["page"] = func(ts *testscript.TestScript, neg bool, args []string) {
		switch {
		case neg || len(args) > 1:
			ts.Fatalf("usage: page [NAME]")
		case len(args) == 0:
			runPage(ts, pages[ts.Name()], ts.Getenv("WORK"))
		default:
			runPage(ts, pages[args[0]], ownFolder(ts, args[0]))
		}
	}
	testscript.Run(t, p)
}

// scriptsOfPages writes the scripts for all pages with commands, and returns their names.
func scriptsOfPages(t *testing.T, pages map[string]string) []string {
	t.Helper()
	dir, files := t.TempDir(), map[string]bool{}
	for name, text := range pages {
		if countCommands(t, name, text) == 0 {
			continue
		}
		source := name
		switch {
		case isShared(t, name):
			name, source = "shared", "shared"
		case !exists(filepath.Join("testdata", "page", name+".txtar")):
			source = "default"
		}
		script, err := os.ReadFile(filepath.Join("testdata", "page", source+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name+".txtar")
		if err := os.WriteFile(file, script, 0o600); err != nil {
			t.Fatal(err)
		}
		files[file] = true
	}
	return slices.Sorted(maps.Keys(files))
}

// countCommands returns how many commands of a page are run, and prints why others are
// not.
func countCommands(t *testing.T, name, text string) int {
	t.Helper()
	run := 0
	for _, s := range docpage.ConsoleBlocks(text) {
		switch {
		case s.NotRun != "":
			t.Logf("%s: %q is not run: %s", name, s.Title, s.NotRun)
		case len(s.Commands) == 0:
			t.Errorf("%s: %q has no command and does not say why it is not run", name, s.Title)
		default:
			run += len(s.Commands)
		}
	}
	return run
}

// sharing matches the line of shared.txtar that runs a page.
var sharing = regexp.MustCompile(`(?m)^page (\S+)$`)

func isShared(t *testing.T, name string) bool {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "page", "shared.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(sharing.FindAllStringSubmatch(string(script), -1), func(found []string) bool { return found[1] == name })
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// linkClone makes a folder look like a clone of the repository, where readers are.
func linkClone(dir string) error {
	for _, folder := range []string{"deploy", "examples"} {
		there, err := filepath.Abs(filepath.Join("..", "..", folder))
		if err != nil {
			return err
		}
		if err := os.Symlink(there, filepath.Join(dir, folder)); err != nil {
			return err
		}
	}
	return nil
}

// ownFolder makes the folder of a page that shares the server with others.
func ownFolder(ts *testscript.TestScript, page string) string {
	dir := ts.MkAbs(page)
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(linkClone(dir))
	ts.Check(os.Symlink(ts.Getenv("CERTPLANE_DATA_DIR"), filepath.Join(dir, "data")))
	return dir
}

// TestScriptsOfPages checks that each script belongs to a page.
func TestScriptsOfPages(t *testing.T) {
	pages := documentation(t)
	scripts, err := filepath.Glob(filepath.Join("testdata", "page", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".txtar")
		if pages[name] == "" && name != "default" && name != "shared" {
			t.Errorf("%s is for no page", script)
		}
	}
}

// The index links to every page, and every page names the KUBECONFIG for its commands.
func TestPagesAreReachable(t *testing.T) {
	pages := documentation(t)
	index := pages["index"]
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		isPage := name != "index" && name != "certplane" && !strings.HasPrefix(name, "example-")
		if isPage && !strings.Contains(index, "("+name+".md") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
		usesAPI := regexp.MustCompile(`(?m)^\$ (certplane (kubectl|request|requests|approve|explain|who-can|grant|user)|kubectl) `)
		if usesAPI.MatchString(pages[name]) && !strings.Contains(pages[name], "KUBECONFIG") {
			t.Errorf("%s does not say which KUBECONFIG its commands use", name)
		}
	}
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]*)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codePattern    = regexp.MustCompile("(?s)```.*?```")
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// Links between pages lead to files and headings that exist.
func TestLinksOfPages(t *testing.T) {
	anchors := map[string]map[string]bool{}
	for file := range documentationFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		anchors[file] = map[string]bool{}
		for _, heading := range headingPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(string(text), ""), -1) {
			anchor := notInAnchor.ReplaceAllString(strings.ToLower(heading[1]), "")
			anchors[file][strings.ReplaceAll(anchor, " ", "-")] = true
		}
	}
	for file := range documentationFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(string(text), ""), -1) {
			to, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := file
			if to != "" {
				target = filepath.Join(filepath.Dir(file), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s: %v", file, link[1], err)
			} else if has, isPage := anchors[target]; isPage && anchor != "" && !has[anchor] {
				t.Errorf("%s: %s: %s has no such heading", file, link[1], target)
			}
		}
	}
}

// documentation returns the pages by name: those of docs, "index" for its README.md,
// "certplane" for the README.md of the repository, and "example-NAME" for the examples.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for file, name := range documentationFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if pages[name] != "" {
			t.Fatalf("two pages have the name %s", name)
		}
		pages[name] = string(text)
	}
	return pages
}

// documentationFiles returns the names of the pages by their files.
func documentationFiles(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	names := map[string]string{filepath.Join(root, "README.md"): "certplane"}
	for _, pattern := range []string{"docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			names[file] = strings.TrimSuffix(filepath.Base(file), ".md")
			if names[file] == "README" {
				names[file] = "example-" + filepath.Base(filepath.Dir(file))
			}
		}
	}
	names[filepath.Join(root, "docs", "README.md")] = "index"
	return names
}

// runPage runs the commands of a page in one shell's environment, in a folder.
func runPage(ts *testscript.TestScript, text, dir string) {
	if text == "" {
		ts.Fatalf("there is no such page")
	}
	ts.Check(os.WriteFile(ts.MkAbs(".state"), []byte("cd '"+dir+"'\n"), 0o600))
	here, began, commands, characters := placesOnHost(ts, dir), time.Now(), 0, 0
	for _, s := range docpage.ConsoleBlocks(text) {
		writeFiles(ts, s.Before, here)
		if s.NotRun != "" {
			continue
		}
		for _, c := range s.Commands {
			runCommand(ts, c, here)
			commands, characters = commands+1, characters+len(c.Line)
		}
	}
	ts.Logf("%d commands of %d characters have taken %.1f s", commands, characters, time.Since(began).Seconds())
}

// fileName matches the first line of a block that shows a file.
var fileName = regexp.MustCompile(`^# (\S+\.(?:yaml|kubeconfig))\n`)

// writeFiles writes the files that a part of a page shows, each below a line with its
// name.
func writeFiles(ts *testscript.TestScript, text string, here places) {
	for _, block := range docpage.Blocks(text, "yaml") {
		name := fileName.FindStringSubmatch(block)
		if name == nil {
			continue
		}
		file := here.toTest.Replace(name[1])
		if !filepath.IsAbs(file) {
			file = filepath.Join(here.dir, file)
		}
		ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		ts.Check(os.WriteFile(file, []byte(here.toTest.Replace(block)), 0o600))
	}
}

// places are folders and addresses that pages show, and where they are in a test.
type places struct {
	// dir is where the commands of the page begin.
	dir            string
	toTest, toPage *strings.Replacer
}

// stand is the key of the pairs of "place".
type stand struct{}

// place has a text of the page stand for another one in the test, in what is typed and in
// what is printed. Backslash n is a new line.
//
//	place TEXT HERE
func place(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: place TEXT HERE")
	}
	pairs := ts.Value(stand{}).(*[]string)
	*pairs = append(*pairs, args[0], strings.ReplaceAll(args[1], `\n`, "\n"))
}

var serverURL = regexp.MustCompile(`server: https://(127\.0\.0\.1:\d+)`)

func placesOnHost(ts *testscript.TestScript, dir string) places {
	work, data := ts.Getenv("WORK"), ts.Getenv("CERTPLANE_DATA_DIR")
	pairs := append(*ts.Value(stand{}).(*[]string),
		"/var/lib/certplane", data,
		"/etc/certplane", filepath.Join(work, "etc"),
		"/var/backups/certplane", filepath.Join(work, "backups"),
		"/media/safe", filepath.Join(work, "safe"),
	)
	if found := serverURL.FindStringSubmatch(ts.ReadFile(filepath.Join(data, "admin.kubeconfig"))); found != nil {
		pairs = append(pairs, "127.0.0.1:6443", found[1])
	}
	var back []string
	for i := 0; i < len(pairs); i += 2 {
		back = append(back, pairs[i+1], pairs[i])
	}
	return places{dir: dir, toTest: strings.NewReplacer(pairs...), toPage: strings.NewReplacer(back...)}
}

// noise is what "kubectl wait" sometimes logs of the watch that it ends itself, and what
// openssl prints while it makes a key.
var noise = regexp.MustCompile(`(?m)^I.* reflector\.go:.*"Warning: watch ended with error".*\n|^(?:[.+*]+|-----)\n`)

// inShell runs a command as the shell of a reader would after the commands before it:
// what they have exported is there, and the folder is that where they have gone.
const inShell = `exec 2>&1
set -a
. "$WORK/.state"
%s
status=$?
{ export -p; echo "cd '$PWD'"; } > "$WORK/.state"
exit $status
`

// runCommand runs a command, for two minutes at most, and compares what it prints, on
// either stream. A command that was forbidden is tried again: the server learns of rights
// from watches.
func runCommand(ts *testscript.TestScript, c docpage.Command, here places) {
	poll(ts, "the right to "+c.Line, func() error {
		err := ts.Exec("timeout", "120", "sh", "-c", fmt.Sprintf(inShell, here.toTest.Replace(c.Line)))
		got := here.toPage.Replace(noise.ReplaceAllString(ts.ReadFile("stdout"), ""))
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n" // pages have each command on a line of its own
		}
		if c.Pattern().MatchString(got) {
			return nil
		}
		if !strings.Contains(got, "orbidden") {
			ts.Fatalf("%s(%v) it prints\n%s\nand the page shows\n%s", c.Line, err, got, c.Output)
		}
		return errors.New(got)
	})
}
