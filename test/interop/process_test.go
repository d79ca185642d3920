package interop

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// assetsEnv is where the ecosystem's tests look for Kubernetes' binaries.
const assetsEnv = "KUBEBUILDER_ASSETS"

// certplaneEnv names the certplane binary under test.
const certplaneEnv = "CERTPLANE"

// timeout bounds each wait for a process or an answer.
const timeout = 2 * time.Minute

// peer returns the path of a real component, or skips the test.
func peer(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(assetsEnv), name)
	if os.Getenv(assetsEnv) == "" {
		t.Skipf("skipped: $%s does not say where %s is; 'make interop' builds it", assetsEnv, name)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("skipped: there is no %s in $%s; 'make interop' builds it", name, assetsEnv)
	}
	return path
}

// certplane returns the path of the program under test.
func certplane(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv(certplaneEnv))
	if os.Getenv(certplaneEnv) == "" || err != nil {
		t.Skipf("skipped: $%s does not name the certplane binary; 'make interop' does", certplaneEnv)
	}
	return path
}

// process is a program that runs until the test ends, at the latest.
type process struct {
	command *exec.Cmd
	output  *lockedBuffer
	ended   chan struct{} // closed when err is known
	err     error
}

// kill ends the process as a crash would.
func (p *process) kill() { p.command.Process.Kill() }

// stop ends the process as an init system would, and returns how it ended.
func (p *process) stop() error {
	p.command.Process.Signal(syscall.SIGTERM)
	<-p.ended
	return p.err
}

// run starts a program that runs until the test ends. Its output is shown if
// the test fails.
func run(t *testing.T, dir, path string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	output := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	p := &process{command: cmd, output: output, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), output.tail(16<<10))
		}
	})
	return p
}

// lockedBuffer is safe for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := b.buffer.Bytes()
	return string(data[max(0, len(data)-n):])
}

// eventually waits for what a process does on its own.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if holds() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s", what)
		}
	}
	t.Fatalf("gave up waiting until %s", what)
}
