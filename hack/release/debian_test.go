package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

var fresh = flag.Bool("fresh", false, "Install the Debian package in a fresh Debian root, which is downloaded.")

// patience bounds each step in the fresh root.
const patience = 2 * time.Minute

// TestFreshDebian installs the package where nothing but Debian is, starts the server as
// its unit does, gets a certificate from it, and removes the package.
func TestFreshDebian(t *testing.T) {
	if !*fresh {
		t.Skip("not run: it downloads a Debian; 'make test-package' runs it")
	}
	root := newDebian(t)
	address := freeAddress(t)
	root.copyIn(t, released(t, "_linux_"+runtime.GOARCH+".deb"), "tmp/certplane.deb")
	root.run(t, "dpkg", "--install", "/tmp/certplane.deb")
	root.add(t, "etc/certplane/server.yaml", "serving: {listen: '"+address+"'}\n")
	root.run(t, "certplane", "config", "check", "/etc/certplane/server.yaml")

	server := root.startUnit(t, "certplane.service")
	root.await(t, server, "certplane", "kubectl", "--kubeconfig", "/var/lib/certplane/admin.kubeconfig", "get", "--raw", "/readyz")
	root.run(t, "certplane", "request", "--data-dir", "/var/lib/certplane", "--signer", "server", "--dns", "web.example.com", "--out", "/root/web", "--approve")
	block, _ := pem.Decode(root.read(t, "root/web/tls.crt"))
	if block == nil {
		t.Fatal("tls.crt has no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.VerifyHostname("web.example.com"); err != nil {
		t.Error(err)
	}
	server.stop(t)

	root.run(t, "dpkg", "--remove", "certplane")
	if _, err := os.Stat(filepath.Join(string(root), packageProgram)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program stays when the package is removed: %v", err)
	}
	root.read(t, "var/lib/certplane/admin.kubeconfig") // data stays
}

// debian is the folder of a Debian root.
type debian string

// newDebian makes one of the release of this machine, or of the stable one.
func newDebian(t *testing.T) debian {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not run: a fresh root is made and entered by root only")
	}
	suite := "stable"
	if about, err := os.ReadFile("/etc/os-release"); err == nil && bytes.Contains(about, []byte("\nID=debian\n")) {
		if name := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(about); name != nil {
			suite = string(name[1])
		}
	}
	root := filepath.Join(t.TempDir(), "root")
	var command *exec.Cmd
	if path, err := exec.LookPath("mmdebstrap"); err == nil {
		command = exec.Command(path, "--variant=minbase", "--mode=root", suite, root)
	} else if path, err := exec.LookPath("debootstrap"); err == nil {
		command = exec.Command(path, "--variant=minbase", suite, root)
	} else {
		t.Skipf("not run: a fresh Debian root is made by mmdebstrap or debootstrap (apt install mmdebstrap): %v", err)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Skipf("not run: no fresh Debian root can be made here: %v: %v\n%s", command, err, out)
	}
	return debian(root)
}

// command is a command in the root, without the environment of this test.
func (d debian) command(words ...string) *exec.Cmd {
	command := exec.Command("chroot", append([]string{string(d)}, words...)...)
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	return command
}

func (d debian) run(t *testing.T, words ...string) {
	t.Helper()
	if out, err := d.command(words...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

func (d debian) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(string(d), name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (d debian) copyIn(t *testing.T, from, name string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(d), name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// add adds lines to a file.
func (d debian) add(t *testing.T, name, lines string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(string(d), name), append(d.read(t, name), lines...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// service is the process of a unit.
type service struct {
	*exec.Cmd
	printed bytes.Buffer
	ended   chan error
}

// startUnit starts what a unit starts, as its user and with its folder, as systemd would.
func (d debian) startUnit(t *testing.T, unit string) *service {
	t.Helper()
	text := string(d.read(t, filepath.Join(unitDir, unit)))
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", unit, name)
		}
		return found[1]
	}
	user, group := setting("User"), setting("Group")
	d.run(t, "install", "-d", "-m", setting("StateDirectoryMode"), "-o", user, "-g", group, "/var/lib/"+setting("StateDirectory"))
	words := append([]string{"setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs", "--bounding-set", "-all"}, strings.Fields(setting("ExecStart"))...)
	s := &service{Cmd: d.command(words...), ended: make(chan error, 1)}
	s.Stdout, s.Stderr = &s.printed, &s.printed
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.Wait() }()
	t.Cleanup(func() { s.Process.Kill() })
	return s
}

// await waits until a command succeeds in the root.
func (d debian) await(t *testing.T, s *service, words ...string) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		out, err := d.command(words...).CombinedOutput()
		if err == nil {
			tick.Stop()
			return
		}
		select {
		case ended := <-s.ended:
			t.Fatalf("the service has ended: %v\n%s", ended, &s.printed)
		case <-deadline:
			t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
		case <-tick.C:
		}
	}
}

// stop stops the service as systemd does.
func (s *service) stop(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("stopping the service: %v\n%s", err, &s.printed)
		}
	case <-time.After(patience):
		t.Error("the service does not stop")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(fmt.Errorf("finding a free port: %w", err))
	}
	defer listener.Close()
	return listener.Addr().String()
}
