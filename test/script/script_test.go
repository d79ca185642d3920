// Package script runs conversations with the certplane program, as people and
// scripts have them. Each file in testdata is one: commands, and what they must
// print.
package script

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/version"
)

// patience bounds each wait on a busy machine.
const patience = 3 * time.Minute

// oldestKubectl is the first release that has to work unmodified.
const oldestKubectl = "1.32.0"

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run is a separate function so that the built programs are removed even if tests fail.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "certplane-script")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := buildPrograms(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("CERTPLANE_SCRIPT_BIN", dir)
	return m.Run()
}

// buildPrograms makes DIR/certplane and DIR/builtin/kubectl, a link to it.
func buildPrograms(dir string) error {
	program := filepath.Join(dir, "certplane")
	build := exec.Command("go", "build", "-o", program, "github.com/certplane/certplane/cmd/certplane")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building certplane: %w\n%s", err, out)
	}
	builtin := filepath.Join(dir, "builtin")
	if err := os.Mkdir(builtin, 0o755); err != nil {
		return err
	}
	return os.Symlink(program, filepath.Join(builtin, "kubectl"))
}

// TestConversations runs every conversation; "kubectl" is certplane under
// that name.
func TestConversations(t *testing.T) {
	p, ca, signer := params(true), startACME(t), startVault(t)
	setUp := p.Setup
	p.Setup = func(env *testscript.Env) error {
		ca.tell(env)
		signer.tell(env)
		return setUp(env)
	}
	p.Cmds["seal"], p.Cmds["txt"] = signer.seal, ca.txt
	testscript.Run(t, p)
}

// TestSystemKubectl runs the kubectl conversation with the kubectl of this
// machine.
func TestSystemKubectl(t *testing.T) {
	if err := findSystemKubectl(); err != nil {
		t.Skipf("the kubectl conversation is had with the built-in kubectl only: %v", err)
	}
	p := params(false)
	p.Dir, p.Files = "", []string{filepath.Join("testdata", "kubectl.txtar")}
	testscript.Run(t, p)
}

func findSystemKubectl() error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return err
	}
	out, err := exec.Command(path, "version", "--client", "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("asking %s for its version: %w", path, err)
	}
	var answer struct {
		ClientVersion struct{ GitVersion string }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return fmt.Errorf("reading the version of %s: %w", path, err)
	}
	// Vendors append a suffix to the version that makes it look like a
	// pre-release.
	v, err := version.ParseGeneric(answer.ClientVersion.GitVersion)
	if err != nil {
		return err
	}
	if !v.AtLeast(version.MustParseGeneric(oldestKubectl)) {
		return fmt.Errorf("%s is version %s, older than %s", path, v, oldestKubectl)
	}
	return nil
}

func params(builtinKubectl bool) testscript.Params {
	return testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			return setup(env, builtinKubectl)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":   ready,
			"appears": appears,
			"capture": capture,
			"mode":    mode,
		},
	}
}

// setup gives every conversation its own home and data folder.
func setup(env *testscript.Env, builtinKubectl bool) error {
	bin := os.Getenv("CERTPLANE_SCRIPT_BIN")
	path := bin
	if builtinKubectl {
		path += string(filepath.ListSeparator) + filepath.Join(bin, "builtin")
	}
	env.Setenv("PATH", path+string(filepath.ListSeparator)+env.Getenv("PATH"))
	home := filepath.Join(env.WorkDir, "home")
	env.Setenv("HOME", home)
	env.Setenv("KUBECONFIG", "")
	env.Setenv("CERTPLANE_DATA_DIR", filepath.Join(env.WorkDir, "data"))
	return os.Mkdir(home, 0o755)
}

// ready waits until the server of a data folder answers.
//
//	ready [DATA_DIR]
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: ready [DATA_DIR]")
	}
	dir := ts.Getenv("CERTPLANE_DATA_DIR")
	if len(args) == 1 {
		dir = ts.MkAbs(args[0])
	}
	poll(ts, "the server to be ready", func() error {
		if _, err := os.Stat(filepath.Join(dir, "admin.kubeconfig")); err != nil {
			return err
		}
		return ts.Exec("certplane", "kubectl", "--data-dir", dir, "get", "--raw", "/readyz")
	})
}

// appears waits until a file has text that matches.
//
//	appears REGEXP FILE
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: appears REGEXP FILE")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll(ts, fmt.Sprintf("%s to have %s", args[1], args[0]), func() error {
		data, err := os.ReadFile(ts.MkAbs(args[1]))
		if err == nil && !want.Match(data) {
			return fmt.Errorf("it has %q", data)
		}
		return err
	})
}

func poll(ts *testscript.TestScript, what string, check func() error) {
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("waited %s for %s: %v", patience, what, err)
		case <-tick.C:
		}
	}
}

// capture puts the last command's output into an environment variable.
//
//	capture VARIABLE
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture VARIABLE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// mode checks a file's permissions.
//
//	mode OCTAL FILE
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("mode of %s is %s, want %s", args[1], got, args[0])
	}
}
