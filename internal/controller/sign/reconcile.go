package sign

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

type reconciler struct {
	selects  func(signerName string) bool
	sign     signer.Sign
	policies *policies.Policies
	cache    client.Reader
	// waiting is the index of the cache with the requests that wait for any signer. If it is
	// empty, there is none: changes are rare.
	waiting  string
	requests outcome.Kind[*csr]
	clock    clock.PassiveClock
	reporter
}

// Reconcile answers one request, if it waits for an answer.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	if err := r.cache.Get(ctx, req.NamespacedName, c, client.UnsafeDisableDeepCopy); err != nil { // it is not modified
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.awaits(c) {
		return r.await(c), nil
	}
	if !actionable(c, r.selects) {
		return reconcile.Result{}, nil
	}
	start := r.clock.Now()
	issued, err := r.policies.Guard(r.requests.Records.Sign(r.sign), policies.ApprovedBy(c))(ctx, request.FromCSR(c), start)
	o, report := outcome.Decide(issued, err, r.issuedEvent), r.reportOn(c, start)
	if issueoncreate.Is(ctx) && o.AsRequested() {
		report.Recorder = nil // an Event would be another write
	}
	return r.requests.Put(ctx, c, o, report)
}

// awaits reports whether to report that a request has no approval.
func (r *reconciler) awaits(c *csr) bool {
	return r.awaitedEvent != "" && undecided(c, r.selects)
}

// await reports that a request needs an approval.
func (r *reconciler) await(c *csr) reconcile.Result {
	if wait := c.CreationTimestamp.Add(requests.ApprovalGrace).Sub(r.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.reportOn(c, r.clock.Now()).Await(r.awaitedEvent, "Waiting for an approval: kubectl certificate approve "+c.Name)
	return reconcile.Result{}
}
