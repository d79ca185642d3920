// Package host runs programs on a host that use the files that an agent keeps
// there, while everything around them changes.
package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

const (
	// dirEnv and addressEnv make the test binary a server on the data directory
	// and the address that they name.
	dirEnv     = "CERTPLANE_HOST_TEST_SERVE"
	addressEnv = "CERTPLANE_HOST_TEST_ADDRESS"
	// patience bounds each wait for a server.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		os.Exit(serve(dir, os.Getenv(addressEnv)))
	}
	os.Exit(m.Run())
}

func serve(dir, address string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = dir, address
	if err := server.Run(ctx, cfg, func(server.Ready) { fmt.Println("ready") }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// controlPlane is a server in a separate process, always at the same address.
type controlPlane struct {
	t            *testing.T
	dir, address string
	process      *exec.Cmd
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	p := &controlPlane{t: t, dir: t.TempDir(), address: apitest.FreeAddress(t)}
	t.Cleanup(p.kill)
	return p
}

// start starts the server and returns when it is ready.
func (p *controlPlane) start() {
	p.t.Helper()
	executable, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.process = exec.Command(executable)
	p.process.Env = append(os.Environ(), dirEnv+"="+p.dir, addressEnv+"="+p.address)
	stdout, err := p.process.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		p.t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = p.process.Process.Kill() })
	defer timer.Stop()
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		p.t.Fatalf("the server did not get ready: %v", errors.Join(err, p.process.Wait()))
	}
}

// kill is kill -9. It returns when the process is gone.
func (p *controlPlane) kill() {
	if p.process != nil && p.process.ProcessState == nil {
		_ = p.process.Process.Kill()
		_ = p.process.Wait()
	}
}

func (p *controlPlane) kubeconfig() string { return filepath.Join(p.dir, "admin.kubeconfig") }
