// Package crash kills servers at any moment and looks at what is left.
package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
)

// serveEnv makes the test binary a server on the data directory it names.
const serveEnv = "CERTPLANE_CRASH_TEST_SERVE"

// timeout bounds each wait for a server.
const timeout = time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		os.Exit(serve(dir))
	}
	os.Exit(m.Run())
}

func serve(dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cfg := server.DefaultConfig()
	cfg.DataDir = dir
	cfg.Serving.Listen = "127.0.0.1:0"
	if err := server.Run(ctx, cfg, func(server.Ready) { fmt.Println("ready") }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Writers store requests while the server is killed, over and over. Each
// request that was acknowledged must be there after the next start.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	const rounds, writers = 5, 8
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range rounds {
		process := startReady(t, dir)
		client := adminClient(t, dir)
		checkStored(t, client, acknowledged)

		killAfter := 1 + rand.IntN(60)
		t.Logf("round %d: %d stored so far, killing after %d more", round, len(acknowledged), killAfter)
		for name := range writeUntilKilled(t, client, round, writers, killAfter, process) {
			acknowledged[name] = true
		}
	}
	process := startReady(t, dir)
	checkStored(t, adminClient(t, dir), acknowledged)
	stop(t, process)
}

// A first start that is killed must not keep a second one from being a whole
// one. Each file marks a step of the start.
func TestKillDuringFirstStart(t *testing.T) {
	for _, file := range []string{
		"lock", "pki/serving-ca.key", "pki/serving-ca.crt", "pki/client-ca-root.key",
		"pki/client-ca-root.crt", "pki/client-ca.key", "pki/client-ca.crt", "pki/admin.crt",
		"etcd/member/wal", "etcd/member/snap/db", "admin.kubeconfig",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			process, _ := start(t, dir)
			apitest.Eventually(t, file+" is there", func() bool {
				_, err := os.Stat(filepath.Join(dir, file))
				return err == nil
			})
			kill(process)

			again := startReady(t, dir)
			checkStored(t, adminClient(t, dir), nil)
			stop(t, again)
		})
	}
}

// writeUntilKilled has writers store requests, kills the server when enough
// have been acknowledged, and returns the names of all that were.
func writeUntilKilled(t *testing.T, client kubernetes.Interface, round, writers, killAfter int, process *exec.Cmd) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	names := make(chan string)
	var group sync.WaitGroup
	for writer := range writers {
		csr := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "crash"}, apitest.NewKey(t))
		group.Go(func() {
			for i := 0; ; i++ {
				csr.Name = fmt.Sprintf("csr-%d-%d-%d", round, writer, i)
				_, err := client.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{})
				if err != nil {
					return // killed
				}
				names <- csr.Name
			}
		})
	}
	go func() { group.Wait(); close(names) }()

	acknowledged := map[string]bool{}
	for name := range names {
		acknowledged[name] = true
		if len(acknowledged) == killAfter {
			kill(process)
		}
	}
	if len(acknowledged) < killAfter {
		t.Fatalf("the writers stopped after %d requests, before the server was killed", len(acknowledged))
	}
	return acknowledged
}

func checkStored(t *testing.T, client kubernetes.Interface, want map[string]bool) {
	t.Helper()
	list, err := client.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing after a kill: %v", err)
	}
	stored := map[string]bool{}
	for _, csr := range list.Items {
		stored[csr.Name] = true
	}
	for name := range want {
		if !stored[name] {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
}

// start runs a server in a process of its own. Its one line on ready says
// that it is.
func start(t *testing.T, dir string) (process *exec.Cmd, ready *bufio.Reader) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process = exec.CommandContext(t.Context(), executable)
	process.Env = append(os.Environ(), serveEnv+"="+dir)
	stdout, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(process) })
	return process, bufio.NewReader(stdout)
}

func startReady(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	process, ready := start(t, dir)
	timer := time.AfterFunc(timeout, func() { process.Process.Kill() })
	defer timer.Stop()
	if _, err := ready.ReadString('\n'); err != nil {
		t.Fatalf("the server did not get ready: %v", errors.Join(err, process.Wait()))
	}
	return process
}

// kill is kill -9. It returns when the process is gone.
func kill(process *exec.Cmd) {
	if process.ProcessState == nil {
		process.Process.Kill()
		process.Wait()
	}
}

func stop(t *testing.T, process *exec.Cmd) {
	t.Helper()
	process.Process.Signal(os.Interrupt)
	if err := process.Wait(); err != nil {
		t.Errorf("stopping the server: %v", err)
	}
}

func adminClient(t *testing.T, dir string) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", datadir.Dir(dir).AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return apitest.Client(t, cfg)
}
