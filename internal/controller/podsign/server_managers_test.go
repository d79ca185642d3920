package podsign_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/cluster"
)

// Two processes that do not know of each other make one CA, issue one
// certificate for each request, and count it once.
func TestTwoManagers(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	cfg := cluster.DefaultConfig()
	cfg.Controllers = []string{"signers", "podsign"}
	cfg.ClientConnection.Kubeconfig = w.Kubeconfig
	cfg.UseServiceAccountCredentials = false
	cfg.Namespace = "kube-system"
	cfg.LeaderElection.LeaderElect = false
	cfg.Metrics.BindAddress, cfg.Health.BindAddress = "0", "0"
	other, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Run(other, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	w.declare(t, w.newSigner())
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parties + 1)
	issued := w.watchIssued(t, ctx)
	group.Go(func() error { return issued.wait(ctx, burst) })
	requests := w.burst(t, burst)
	for _, request := range requests {
		group.Go(func() error { return w.api.Create(ctx, request) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	issued.check(t, requests)
	leaf := leafOf(t, w.answered(t, requests[0].Name))
	if err := leaf.CheckSignatureFrom(w.caOf(t, "signer-"+w.namespace)); err != nil {
		t.Errorf("another CA than the one in the Secret: %v", err)
	}
	w.signer(t, w.namespace, "has counted all", func(s *v1alpha1.Signer) bool {
		if s.Status.Issued > burst {
			t.Fatalf("counted %d, issued %d", s.Status.Issued, burst)
		}
		return s.Status.Issued == burst
	})
}
