package podsign_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

const (
	burst   = 300
	parties = 16 // clients that send requests at the same time
)

// However many requests come at once and whichever other clients write to them,
// each gets one certificate and keeps it.
func TestBurst(t *testing.T) {
	w := newWorld(t, common.Start(t))
	w.declare(t, w.newSigner())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parties + 1)
	issued := w.watchIssued(t, ctx)
	group.Go(func() error { return issued.wait(ctx, burst) })
	requests := w.burst(t, burst)
	for _, request := range requests {
		group.Go(func() error {
			if err := w.api.Create(ctx, request); err != nil {
				return err
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"interfering":"yes"}}}`))
			return w.api.Patch(ctx, request.DeepCopy(), patch)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	issued.check(t, requests)
}

// Requests that were made before a server stops are answered, possibly after
// the next start, and none is answered twice.
func TestRestart(t *testing.T) {
	w := newWorld(t, apitest.Start(t))
	w.declare(t, w.newSigner())
	requests := w.burst(t, 100)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(parties)
	for _, request := range requests {
		group.Go(func() error { return w.api.Create(ctx, request) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	list := &certificatesv1beta1.PodCertificateRequestList{}
	if err := w.api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		first[item.Name] = item.Status.CertificateChain
	}
	w.Restart(t)
	w.connect(t)
	for _, request := range requests {
		answered := w.answered(t, request.Name)
		leafOf(t, answered)
		if before := first[request.Name]; before != "" && before != answered.Status.CertificateChain {
			t.Errorf("%s has another certificate than before", request.Name)
		}
	}
}

// burst returns n requests, without sending them.
func (w *world) burst(t testing.TB, n int) []*certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	pod := w.pod(t, "burst", nil)
	var requests []*certificatesv1beta1.PodCertificateRequest
	for i := range n {
		requests = append(requests, w.requestOf(t, pod, fmt.Sprintf("burst-%d", i), newKey(t, pki.Ed25519)))
	}
	return requests
}

// issuedSoFar records the first certificate of each request.
type issuedSoFar struct {
	changes watch.Interface
	chains  map[string]string
}

func (w *world) watchIssued(t testing.TB, ctx context.Context) *issuedSoFar {
	t.Helper()
	requests := w.core.CertificatesV1beta1().PodCertificateRequests(w.namespace)
	begin, err := requests.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, begin.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return requests.Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	return &issuedSoFar{changes: changes, chains: map[string]string{}}
}

// wait returns when n requests have certificates. A certificate that changes is
// an error.
func (i *issuedSoFar) wait(ctx context.Context, n int) error {
	for len(i.chains) < n {
		select {
		case event, open := <-i.changes.ResultChan():
			r, ok := event.Object.(*certificatesv1beta1.PodCertificateRequest)
			if !open || !ok {
				return fmt.Errorf("the watch ended with %d certificates: %v", len(i.chains), event.Object)
			}
			chain := r.Status.CertificateChain
			if before, known := i.chains[r.Name]; known && before != chain {
				return errors.New("the certificate of " + r.Name + " has changed")
			}
			if chain != "" {
				i.chains[r.Name] = chain
			}
		case <-ctx.Done():
			return fmt.Errorf("%d of %d requests have certificates: %w", len(i.chains), n, ctx.Err())
		}
	}
	return nil
}

// check checks that each request has its own certificate.
func (i *issuedSoFar) check(t testing.TB, requests []*certificatesv1beta1.PodCertificateRequest) {
	t.Helper()
	serials := map[string]string{}
	for _, request := range requests {
		chain, err := pki.ParseCertificates([]byte(i.chains[request.Name]))
		if err != nil {
			t.Fatal(err)
		}
		serial := chain[0].SerialNumber.String()
		if twin := serials[serial]; twin != "" {
			t.Errorf("%s and %s have the same serial number", twin, request.Name)
		}
		serials[serial] = request.Name
	}
}
