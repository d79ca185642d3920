package clean

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policy/retention"
)

// deleter deletes requests and reports why.
type deleter struct {
	client client.Writer
	report reporter
	await  *recordWait
}

const (
	mostHeld  = 10 * time.Minute // how long a request waits for the record of its certificate
	lookAgain = 10 * time.Second // how often that is checked
)

// recordWait delays deletions until certificates are recorded. It is safe for concurrent use.
type recordWait struct {
	recorded func(kind string, request types.UID) bool // as Config.Recorded
	clock    clock.PassiveClock
	mu       sync.Mutex              // guards since
	since    map[types.UID]time.Time // when the wait of each request began
}

func newRecordWait(recorded func(string, types.UID) bool, clk clock.PassiveClock) *recordWait {
	return &recordWait{recorded: recorded, clock: clk, since: map[types.UID]time.Time{}}
}

// holds reports whether a request with a certificate has to wait for the record of that.
func (w *recordWait) holds(kind string, request types.UID) bool {
	if w.recorded == nil {
		return false
	}
	recorded, now := w.recorded(kind, request), w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	since, known := w.since[request]
	switch {
	case recorded || known && now.Sub(since) >= mostHeld:
		delete(w.since, request)
		return false
	case !known:
		w.since[request] = now
	}
	return true
}

// sweep deletes c unless it changed after verdict was reached. If it changed, it must be
// judged again: a user may just have approved it.
func (b *deleter) sweep(ctx context.Context, c *csr, verdict retention.Verdict) (reconcile.Result, error) {
	if len(c.Status.Certificate) > 0 && b.await.holds("CertificateSigningRequest", c.UID) {
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	}
	judged := client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}
	err := b.client.Delete(ctx, &csr{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}, judged)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("deleting the request %s: %w", c.Name, err)
	}
	b.report.deleted(ctx, c, verdict)
	return reconcile.Result{}, nil
}

// action is the action in the cleaner's Events.
const action = "Clean"

// reporter reports to operators what was deleted and why.
type reporter struct {
	metrics *metrics
	events  events.EventRecorder // can be nil
}

func (r reporter) deleted(ctx context.Context, c *csr, verdict retention.Verdict) {
	log.FromContext(ctx).V(verbosity(verdict)).Info("Deleted request", "request", c.Name, "uid", c.UID, "signer", c.Spec.SignerName,
		"requester", c.Spec.Username, "reason", verdict.Reason, "message", verdict.Message)
	r.metrics.deleted.WithLabelValues(string(verdict.Reason)).Inc()
	switch verdict.Reason {
	case retention.Pending, retention.Approved, retention.Undecided:
		r.event(c, corev1.EventTypeNormal, "Deleted", "Deleted without an outcome: it was %s", verdict.Message)
	}
}

// verbosity keeps out of the log what has a summary: a client that floods the
// store must not flood the log.
func verbosity(verdict retention.Verdict) int {
	if verdict.Reason == retention.Excess {
		return 2
	}
	return 0
}

func (r reporter) tooMany(c *csr, excess string) {
	r.event(c, corev1.EventTypeWarning, "TooManyRequests",
		"%s has %s: the oldest are deleted, with or without an outcome", c.Spec.Username, excess)
}

func (r reporter) event(c *csr, kind, reason, note string, args ...any) {
	if r.events != nil {
		r.events.Eventf(c, nil, kind, reason, action, note, args...)
	}
}
