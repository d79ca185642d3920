package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest/freeport"
)

// patience is how long anything that is waited for may take on a busy machine.
const patience = 3 * time.Minute

// TestREADME runs the commands of the README in their order. Only the folders
// and the ports are others.
func TestREADME(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("the README verifies with openssl, which is not here")
	}
	blocks := commands(t)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks of commands in the README, want 5: change this test too", len(blocks))
	}
	dir := t.TempDir()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range blocks {
		block = strings.ReplaceAll(block, "127.0.0.1:9443", address)
		block = strings.ReplaceAll(block, "certplane serve ", "certplane serve --listen 127.0.0.1:0 ")
		block = strings.ReplaceAll(block, "webhook-signer serve ", "webhook-signer serve --listen "+address+" ")
		block = regexp.MustCompile(`\bbin/`).ReplaceAllString(block, dir+"/bin/")
		blocks[i] = regexp.MustCompile(`\bdemo\b`).ReplaceAllString(block, dir+"/demo")
	}
	build, endpoint, server, issue, refuse := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4]

	execute(t, build)
	background(t, endpoint, "signing for example.com/my-signer")
	background(t, server, "certplane is ready")
	if out := execute(t, issue); !strings.Contains(out, "tls.crt: OK") {
		t.Errorf("the certificate does not verify:\n%s", out)
	}
	if out := execute(t, refuse); !strings.HasSuffix(out, "web.example.org is not under example.com") || !strings.Contains(out, "exit code 4") {
		t.Errorf("a name that is not allowed:\n%s", out)
	}
}

// commands returns the blocks of shell commands in the README.
func commands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

func shell(t *testing.T, script string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir = filepath.Join("..", "..")
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func execute(t *testing.T, script string) string {
	t.Helper()
	out, err := shell(t, script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// background runs a script that does not end, and waits until it prints that it
// is ready.
func background(t *testing.T, script, ready string) {
	t.Helper()
	i := strings.LastIndex(strings.TrimSpace(script), "\n") + 1
	cmd := shell(t, script[:i]+"exec "+script[i:])
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { <-ended }) // the test's context has ended
	deadline := time.After(patience)
	for !strings.Contains(out.String(), ready) {
		select {
		case <-ended:
			t.Fatalf("ended:\n%s\n%s", script, out)
		case <-deadline:
			t.Fatalf("not ready after %v:\n%s\n%s", patience, script, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output collects the output of a program while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
