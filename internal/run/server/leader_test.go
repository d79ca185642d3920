package server_test

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// leaseTimes are for tests in which a lease runs out, or must not.
func leaseTimes(lease time.Duration) func(*server.Config) {
	return func(cfg *server.Config) {
		cfg.LeaderElection = controllermanager.LeaseTimes{
			LeaseDuration: metav1.Duration{Duration: lease},
			RenewDeadline: metav1.Duration{Duration: lease * 3 / 4},
			RetryPeriod:   metav1.Duration{Duration: 100 * time.Millisecond},
		}
	}
}

// One of the servers that share an etcd runs the controllers. It releases the
// lease when it is stopped, so that the next one need not wait for its end:
// here that is ten minutes away.
func TestOneOfSeveralServersSigns(t *testing.T) {
	t.Parallel()
	store := startExternalEtcd(t)
	useStore := func(cfg *server.Config) { cfg.Etcd = store }
	first := apitest.Start(t, useStore, leaseTimes(10*time.Minute))
	second := apitest.Start(t, useStore, leaseTimes(10*time.Minute), func(cfg *server.Config) { sharePKI(t, first.Config.DataDir, cfg.DataDir) })
	toFirst, toSecond := apitest.Client(t, first.Admin(t)), apitest.Client(t, second.Admin(t))

	holder := awaitLeader(t, toFirst, "")
	signsFor(t, toFirst, "to-the-leader")
	signsFor(t, toSecond, "to-the-other")
	first.Stop(t)
	awaitLeader(t, toSecond, holder)
	signsFor(t, toSecond, "after-the-leader")
}

// A server that has lost the lease continues to serve the API, and runs the
// controllers again once no other server has the lease.
func TestLeaseIsLost(t *testing.T) {
	store := startExternalEtcd(t)
	s := apitest.Start(t, func(cfg *server.Config) { cfg.Etcd = store }, leaseTimes(3*time.Second))
	admin := apitest.Client(t, s.Admin(t))
	holder := awaitLeader(t, admin, "")
	takeLease(t, admin, "somebody else", metav1.NewMicroTime(time.Now()))
	if again := awaitLeader(t, admin, "somebody else"); again != holder {
		t.Errorf("the holder is %s, want %s", again, holder)
	}
	signsFor(t, admin, "after-the-loss")
}

// awaitLeader waits until the lease has a holder other than before, and returns
// that holder.
func awaitLeader(t *testing.T, client kubernetes.Interface, before string) string {
	t.Helper()
	var holder string
	apitest.Eventually(t, "the controllers run on a server other than "+before, func() bool {
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), controllermanager.LeaseName, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		holder = *lease.Spec.HolderIdentity
		return holder != "" && holder != before
	})
	return holder
}

func takeLease(t *testing.T, client kubernetes.Interface, holder string, renewed metav1.MicroTime) {
	t.Helper()
	patch := []byte(`{"spec":{"holderIdentity":"` + holder + `","renewTime":"` + renewed.UTC().Format(metav1.RFC3339Micro) + `"}}`)
	_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Patch(t.Context(), controllermanager.LeaseName, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// signsFor has a request signed.
func signsFor(t *testing.T, client kubernetes.Interface, name string) *x509.Certificate {
	t.Helper()
	request := apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, apitest.NewKey(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	requests := client.CertificatesV1().CertificateSigningRequests()
	created, err := requests.Create(ctx, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := requests.UpdateApproval(ctx, name, apitest.With(created, certificatesv1.CertificateApproved), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	chain, err := pki.ParseCertificates(apitest.Issued(t, client, created))
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}
