package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// Writers store requests while the server is killed, again and again. Each
// acknowledged request must exist after the next start.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	const rounds, writers = 5, 8
	dir := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range rounds {
		process := startReady(t, role{Dir: dir})
		client := adminClient(t, dir)
		checkStored(t, client, acknowledged)

		killAfter := 1 + rand.IntN(60)
		t.Logf("round %d: %d stored so far, killing after %d more", round, len(acknowledged), killAfter)
		for name := range writeUntilKilled(t, client, round, writers, killAfter, process) {
			acknowledged[name] = true
		}
	}
	process := startReady(t, role{Dir: dir})
	checkStored(t, adminClient(t, dir), acknowledged)
	process.stop(t)
}

// After a first start that was killed, a second start must be complete. Each
// file marks a step of the start.
func TestKillDuringFirstStart(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"lock", "pki/serving-ca.key", "pki/serving-ca.crt", "pki/client-ca-root.key",
		"pki/client-ca-root.crt", "pki/client-ca.key", "pki/client-ca.crt", "pki/admin.crt",
		"etcd/member/wal", "etcd/member/snap/db", "admin.kubeconfig",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			process := start(t, role{Dir: dir})
			apitest.Eventually(t, file+" is there", func() bool {
				_, err := os.Stat(filepath.Join(dir, file))
				return err == nil
			})
			process.kill()

			again := startReady(t, role{Dir: dir})
			checkStored(t, adminClient(t, dir), nil)
			again.stop(t)
		})
	}
}

// writeUntilKilled has writers store requests, kills the server when enough
// have been acknowledged, and returns the names of all acknowledged ones.
func writeUntilKilled(t *testing.T, client kubernetes.Interface, round, writers, killAfter int, process *process) map[string]bool {
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
			process.kill()
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

func adminClient(t *testing.T, dir string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, adminConfig(t, dir))
}
