// Package policyapprove approves and denies CertificateSigningRequests as the
// certificate policies say.
package policyapprove

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

const (
	controllerName = "policyapprove"
	// concurrency is how many requests are decided at the same time.
	concurrency = 5
)

type csr = certificatesv1.CertificateSigningRequest

// Config is what the approver needs to run.
type Config struct {
	// Client is the approver's own identity. It needs update on
	// certificatesigningrequests/approval, and approve on the signers that
	// policies are about.
	Client client.Client
	// Policies decide.
	Policies *policies.Policies
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what was decided, and what is missing.
	Events events.EventRecorder
}

// Add adds the approver to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	r := &reconciler{cfg, mgr.GetCache()}
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&certificatesv1.CertificateSigningRequest{}, turns.New(cfg.Clock), builder.WithPredicates(r.arrivals())).
		WatchesRawSource(source.Func(r.retryWithPolicies)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrency,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Minute),
			ReconciliationTimeout:   time.Minute,
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the approver by policies: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache client.Reader
}

// arrivals lets a request pass when it begins to wait, and when its conditions
// change: people may have approved it.
func (r *reconciler) arrivals() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return r.waits(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return r.waits(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return r.waits(e.Object) },
	}
}

func (r *reconciler) waits(o client.Object) bool {
	c, ok := o.(*csr)
	return ok && approval.Undecided(c) && r.Policies.Concern(v1alpha1.CertificateSigningRequests, c.Spec.SignerName)
}

// Reconcile decides about one request.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	// The object belongs to the cache and must not be modified.
	if err := r.cache.Get(ctx, key.NamespacedName, c, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)}); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !approval.Undecided(c) {
		return reconcile.Result{}, nil
	}
	action := r.Policies.Next(ctx, request.FromCSR(c), policies.ConditionsOfCSR(c))
	if action.Step == policies.StepLeave {
		return reconcile.Result{}, nil
	}
	return r.act(ctx, c, action)
}

// decided reports what was decided, or that people are missing.
func (r *reconciler) decided(ctx context.Context, c *csr, a policies.Action) {
	log.FromContext(ctx).V(1).Info("Decided by certificate policies", "uid", c.UID, "requester", c.Spec.Username, "reason", a.Reason)
	if a.Step == policies.StepDeny {
		r.event(c, corev1.EventTypeWarning, policies.EventDenied, a.Message)
		return
	}
	r.event(c, corev1.EventTypeNormal, a.Reason, a.Message)
}

// later reports that a fact is missing.
func (r *reconciler) later(ctx context.Context, c *csr, a policies.Action) {
	log.FromContext(ctx).V(2).Info("Certificate policies cannot decide yet", "uid", c.UID, "reason", a.Reason, "message", a.Message)
	if a.Reason == policies.EventFacts {
		r.event(c, corev1.EventTypeNormal, a.Reason, a.Message)
	}
}

func (r *reconciler) event(c *csr, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(c, nil, kind, reason, "Approve", "%s", note.Fit(text))
	}
}

// retryWithPolicies is a source of work: each change of the policies triggers
// the requests that wait for a decision.
func (r *reconciler) retryWithPolicies(ctx context.Context, q worker.Queue) error {
	worker.OnChange(ctx, r.Policies.Subscribe, func() {
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			worker.CannotWake(ctx, err, "Cannot list the requests that certificate policies may decide now; they are decided when they change")
			return
		}
		for i := range list.Items {
			if r.waits(&list.Items[i]) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	})
	return nil
}
