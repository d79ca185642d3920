package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// patience is how long a start or a stop may take on a busy machine.
const patience = 3 * time.Minute

// refused runs a server that must not start and returns the error.
func refused(t *testing.T, cfg server.Config) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := server.Run(ctx, cfg, func(server.Ready) { t.Error("the server started"); cancel() })
	if err == nil {
		t.Fatal("no error")
	}
	return err.Error()
}

func wantAlive(t *testing.T, cfg *rest.Config) {
	t.Helper()
	if _, err := apitest.Client(t, cfg).CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the server that runs: %v", err)
	}
}

func TestOneServerForADataDir(t *testing.T) {
	s := apitest.Start(t)
	cfg := s.Config
	cfg.Serving.Listen = "127.0.0.1:0"
	want := fmt.Sprintf("data directory %s is in use by another certplane server (process %d); stop that one or choose another with --data-dir", cfg.DataDir, os.Getpid())
	if got := refused(t, cfg); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	wantAlive(t, s.Admin(t))
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = t.TempDir(), listener.Addr().String()
	want := "listening on " + cfg.Serving.Listen + ": another program uses this port; stop it or choose another with --listen"
	if got := refused(t, cfg); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	// No lock is left: with another port the same folder works.
	apitest.Start(t, func(c *server.Config) { c.DataDir = cfg.DataDir })
}

func TestInvalidConfigTouchesNothing(t *testing.T) {
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = filepath.Join(t.TempDir(), "data"), "nowhere"
	if got := refused(t, cfg); !strings.Contains(got, "serving.listen") {
		t.Error(got)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory: %v", err)
	}
}

// Only the owner can read the server's files.
func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // as mkdir makes it
		t.Fatal(err)
	}
	s := apitest.Start(t, func(c *server.Config) { c.DataDir = dir })
	for path, want := range map[string]fs.FileMode{
		dir:                                    fs.ModeDir | 0o700,
		filepath.Join(dir, "pki"):              fs.ModeDir | 0o700,
		filepath.Join(dir, "etcd"):             fs.ModeDir | 0o700,
		filepath.Join(dir, "admin.kubeconfig"): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if want := filepath.Join(dir, "admin.kubeconfig"); s.Kubeconfig != want {
		t.Errorf("the kubeconfig is %s, want %s", s.Kubeconfig, want)
	}
	// The file is all that a client needs, wherever it is copied to.
	cfg, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ConfirmUsable(*cfg, ""); err != nil {
		t.Errorf("the kubeconfig: %v", err)
	}
	for _, cluster := range cfg.Clusters {
		if cluster.Server != s.URL || len(cluster.CertificateAuthorityData) == 0 || cluster.InsecureSkipTLSVerify {
			t.Errorf("the cluster is %+v", cluster)
		}
	}
}

// After a restart, objects, identities and trust are the same.
func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	old := s.Admin(t)
	stored := apitest.Create(t, apitest.Client(t, old), apitest.NewCSR(t, "kept", "example.com/signer", pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
	before := readTree(t, filepath.Join(s.Config.DataDir, "pki"))

	s.Restart(t)
	after := readTree(t, filepath.Join(s.Config.DataDir, "pki"))
	for name, data := range before {
		if after[name] != data {
			t.Errorf("%s has changed", name)
		}
	}
	kept, err := apitest.Client(t, s.Admin(t)).CertificatesV1().CertificateSigningRequests().Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if kept.UID != stored.UID || kept.ResourceVersion != stored.ResourceVersion {
		t.Errorf("got %s at %s, want %s at %s", kept.UID, kept.ResourceVersion, stored.UID, stored.ResourceVersion)
	}
	old.Host = s.URL // only the port is new
	wantAlive(t, old)
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	contents := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		contents[entry.Name()] = string(data)
	}
	return contents
}

// A stop waits for requests under way, but not for watches.
func TestStopWithWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = t.TempDir(), "127.0.0.1:0"
	ready, ended := make(chan server.Ready, 1), make(chan error, 1)
	go func() { ended <- server.Run(ctx, cfg, func(r server.Ready) { ready <- r }) }()
	var r server.Ready
	select {
	case r = <-ready:
	case err := <-ended:
		t.Fatalf("the server did not start: %v", err)
	}

	watching := watchForever(t, r)
	watch := apitest.StartStopwatch(t)
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not stop")
	}
	if took := watch.Elapsed(); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	select {
	case <-watching:
	case <-time.After(patience):
		t.Error("the watch goes on without a server")
	}
}

// watchForever opens a watch; the returned channel is closed with it.
func watchForever(t *testing.T, r server.Ready) <-chan struct{} {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.CertificatesV1().CertificateSigningRequests().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for range watch.ResultChan() { //nolint:revive // until the end
		}
	}()
	return closed
}

// A server that is stopped before it is ready stops without an error, and
// leaves a folder that the next one can use.
func TestStopWhileStarting(t *testing.T) {
	cfg := server.DefaultConfig()
	cfg.DataDir, cfg.Serving.Listen = t.TempDir(), "127.0.0.1:0"
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx, cfg, func(server.Ready) {}) }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("stopped after %v: %v", after, err)
			}
		case <-time.After(patience):
			t.Fatalf("stopped after %v: the server does not end", after)
		}
		cancel()
	}
	apitest.Start(t, func(c *server.Config) { c.DataDir = cfg.DataDir })
}
