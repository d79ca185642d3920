package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// Writers have requests approved and signed while the server is killed, again and again.
// Every certificate that a client can have seen must be in the inventory.
func TestKillLeavesNoCertificateUnrecorded(t *testing.T) {
	t.Parallel()
	const rounds, writers = 4, 4
	dir, issued := t.TempDir(), map[string]string{}
	for round := range rounds {
		process := startReady(t, role{Dir: dir})
		checkRecorded(t, dir, issued)
		killAfter := 3 + 9*round
		for fingerprint, name := range issueUntilKilled(t, adminClient(t, dir), round, writers, killAfter, process) {
			issued[fingerprint] = name
		}
		t.Logf("round %d: %d certificates until now", round, len(issued))
	}
	process := startReady(t, role{Dir: dir})
	checkRecorded(t, dir, issued)
	process.stop(t)
}

// issueUntilKilled returns the fingerprints of the certificates that clients have seen
// before the server was killed, with the names of their requests.
func issueUntilKilled(t *testing.T, client kubernetes.Interface, round, writers, killAfter int, process *process) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	seen := make(chan [2]string)
	var group sync.WaitGroup
	for writer := range writers {
		csr := apitest.NewCSR(t, "", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "crash"}, apitest.NewKey(t))
		group.Go(func() {
			for i := 0; ; i++ {
				csr.Name = fmt.Sprintf("issued-%d-%d-%d", round, writer, i)
				fingerprint, err := obtain(ctx, client, csr.DeepCopy())
				if err != nil {
					return // killed
				}
				seen <- [2]string{fingerprint, csr.Name}
			}
		})
	}
	go func() { group.Wait(); close(seen) }()
	issued := map[string]string{}
	for one := range seen {
		issued[one[0]] = one[1]
		if len(issued) == killAfter {
			process.kill()
		}
	}
	if len(issued) < killAfter {
		t.Fatalf("the writers stopped after %d certificates, before the server was killed", len(issued))
	}
	return issued
}

// obtain returns the fingerprint of the certificate for a request that it creates and
// approves.
func obtain(ctx context.Context, client kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) (string, error) {
	requests := client.CertificatesV1().CertificateSigningRequests()
	stored, err := requests.Create(ctx, csr, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	watched, err := requests.Watch(ctx, metav1.SingleObject(stored.ObjectMeta))
	if err != nil {
		return "", err
	}
	defer watched.Stop()
	stored.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	}}
	if _, err := requests.UpdateApproval(ctx, stored.Name, stored, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	for event := range watched.ResultChan() {
		if now, ok := event.Object.(*certificatesv1.CertificateSigningRequest); ok && len(now.Status.Certificate) > 0 {
			return fingerprintOf(now.Status.Certificate)
		}
	}
	return "", context.Canceled
}

func fingerprintOf(chain []byte) (string, error) {
	parsed, err := pki.ParseCertificates(chain)
	if err != nil {
		return "", err
	}
	return pki.Fingerprint(parsed[0]), nil
}

// checkRecorded reports certificates that clients have seen, or that are in requests,
// and that are not in the inventory, and records without an approver.
func checkRecorded(t *testing.T, dir string, issued map[string]string) {
	t.Helper()
	want := map[string]string{}
	for fingerprint, name := range issued {
		want[fingerprint] = name
	}
	requests, err := adminClient(t, dir).CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing after a kill: %v", err)
	}
	for _, csr := range requests.Items {
		if len(csr.Status.Certificate) == 0 {
			continue
		}
		fingerprint, err := fingerprintOf(csr.Status.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		want[fingerprint] = csr.Name
	}
	client, err := dynamic.NewForConfig(adminConfig(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	records, err := client.Resource(inventoryv1alpha1.GroupVersion.WithResource("issuedcertificates")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing the inventory: %v", err)
	}
	for _, record := range records.Items {
		facts := record.Object["certificate"].(map[string]any)
		delete(want, facts["fingerprint"].(string))
		if use, _ := record.Object["use"].(string); use != "" {
			continue // the server's own, for which nobody asks
		}
		approval, _ := record.Object["approval"].(map[string]any)
		if approvers, _ := approval["approvers"].([]any); len(approvers) != 1 {
			t.Errorf("the record %s has the approval %v", record.GetName(), approval)
		}
	}
	for _, name := range want {
		t.Errorf("the certificate of %s is not in the inventory", name)
	}
}
