package script

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Services of Type=notify have started for systemd when they say READY=1.
func TestSystemdNotifications(t *testing.T) {
	program := filepath.Join(os.Getenv("CERTPLANE_SCRIPT_BIN"), "certplane")
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	t.Setenv("KUBECONFIG", filepath.Join(data, "admin.kubeconfig"))

	server := startService(t, exec.Command(program, "serve", "--data-dir", data, "--listen", "127.0.0.1:0"))
	server.await(t, "READY=1")

	bootstrap := filepath.Join(dir, "bootstrap.kubeconfig")
	token := exec.Command(program, "token", "create")
	var problems strings.Builder
	token.Stderr = &problems
	kubeconfig, err := token.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", token, err, problems.String())
	}
	if err := os.WriteFile(bootstrap, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	agent := startService(t, exec.Command(program, "agent", "--node-name", "edge-1", "--bootstrap-kubeconfig", bootstrap,
		"--manifests", manifests, "--data-dir", filepath.Join(dir, "agent"), "--metrics-bind-address", "0"))
	agent.await(t, "READY=1")
	agent.stop(t)
	server.stop(t)
}

// service is a process with a socket for its notifications.
type service struct {
	command *exec.Cmd
	socket  *net.UnixConn
	output  *bytes.Buffer
	ended   chan error
}

func startService(t *testing.T, command *exec.Cmd) *service {
	t.Helper()
	// Paths of sockets are short.
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "socket")}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	s := &service{command: command, socket: socket, output: &bytes.Buffer{}, ended: make(chan error, 1)}
	command.Env = append(os.Environ(), "NOTIFY_SOCKET="+address.Name)
	command.Stdout, command.Stderr = s.output, s.output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- command.Wait() }()
	t.Cleanup(func() { _ = command.Process.Kill() })
	return s
}

// await fails the test unless this is the next notification.
func (s *service) await(t *testing.T, want string) {
	t.Helper()
	if err := s.socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 1024)
	n, err := s.socket.Read(message)
	if err != nil {
		_ = s.command.Process.Kill()
		<-s.ended // its output is complete
		t.Fatalf("waiting for %s of %v: %v\n%s", want, s.command, err, s.output)
	}
	if got := string(message[:n]); got != want {
		t.Fatalf("%v says %q, want %q", s.command, got, want)
	}
}

// stop ends the service as systemd does.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.await(t, "STOPPING=1")
	if err := <-s.ended; err != nil {
		t.Errorf("%v: %v\n%s", s.command, err, s.output)
	}
}
