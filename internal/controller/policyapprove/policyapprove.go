// Package policyapprove approves and denies CertificateSigningRequests as the
// certificate policies say.
package policyapprove

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/certplane/certplane/internal/issueoncreate"
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
	// OnCreate, if not nil, has requests approved in the calls that create them, too.
	OnCreate *issueoncreate.Hub
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
	r := &reconciler{cfg, issueoncreate.Reader(mgr.GetCache())}
	if err := cfg.OnCreate.AddTo(mgr, issueoncreate.Step{
		Resource: certificatesv1.Resource("certificatesigningrequests"), Role: issueoncreate.Approve, Takes: r.takesNew, Reconciler: r,
	}); err != nil {
		return err
	}
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

// arrivals lets a request pass when it begins to wait, when its conditions change,
// as people may have approved it, and when it does not wait any more.
func (r *reconciler) arrivals() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return r.waits(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return r.waits(e.ObjectNew) || r.waits(e.ObjectOld) },
		DeleteFunc:  func(e event.DeleteEvent) bool { return r.waits(e.Object) },
		GenericFunc: func(e event.GenericEvent) bool { return r.waits(e.Object) },
	}
}

func (r *reconciler) waits(o client.Object) bool {
	c, ok := o.(*csr)
	return ok && approval.Undecided(c) && r.Policies.Concern(v1alpha1.CertificateSigningRequests, c.Spec.SignerName)
}

// takesNew reports whether a request may be approved in the call that creates it.
func (r *reconciler) takesNew(o client.Object) bool {
	c, ok := o.(*csr)
	return ok && approval.Undecided(c) && r.Policies.MayIssueOnCreate(v1alpha1.CertificateSigningRequests, c.Spec.SignerName)
}

// Reconcile decides about one request.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	// The object belongs to the cache and must not be modified.
	if err := r.cache.Get(ctx, key.NamespacedName, c, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)}); err != nil {
		if apierrors.IsNotFound(err) {
			r.Policies.Ended(v1alpha1.CertificateSigningRequests, key.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	asked, conditions := request.FromCSR(c), policies.ConditionsOf(c)
	for _, vote := range r.Policies.NewVotes(asked, conditions) {
		r.event(c, vote.Type, vote.Reason, vote.Message)
		for _, policy := range vote.Overridden {
			r.event(policy, vote.Type, vote.Reason, vote.About(asked))
		}
	}
	if issueoncreate.Is(ctx) { // nothing tells of its end later
		defer r.Policies.Ended(v1alpha1.CertificateSigningRequests, key.NamespacedName)
	}
	if !approval.Undecided(c) {
		r.Policies.Ended(v1alpha1.CertificateSigningRequests, key.NamespacedName)
		return reconcile.Result{}, nil
	}
	action := r.Policies.Next(ctx, asked, conditions)
	if action.Step == policies.StepLeave {
		return r.leave(c, action), nil
	}
	return r.act(ctx, c, action)
}

// leave reports after a while that no policy is about a request.
func (r *reconciler) leave(c *csr, a policies.Action) reconcile.Result {
	if a.Reason == policies.EventNone && !a.Early {
		r.report(c, corev1.EventTypeNormal, a.Reason, a.Message)
	}
	return reconcile.Result{RequeueAfter: a.After}
}

// decided reports what was decided, or that people are missing.
func (r *reconciler) decided(ctx context.Context, c *csr, a policies.Action) {
	log.FromContext(ctx).V(1).Info("Decided by certificate policies", "uid", c.UID, "requester", c.Spec.Username, "reason", a.Reason)
	if a.Step == policies.StepDeny {
		r.report(c, corev1.EventTypeWarning, policies.EventDenied, a.Message)
		return
	}
	r.report(c, corev1.EventTypeNormal, a.Reason, a.Message)
}

// later reports why a request is not decided.
func (r *reconciler) later(ctx context.Context, c *csr, a policies.Action) {
	log.FromContext(ctx).V(2).Info("Certificate policies cannot decide yet", "uid", c.UID, "reason", a.Reason, "message", a.Message)
	if event := a.WaitingEvent(); event != nil {
		r.report(c, event.Type, event.Reason, event.Message)
	}
}

// report records an Event unless the last one said the same.
func (r *reconciler) report(c *csr, kind, reason, text string) {
	if r.Policies.News(c.UID, reason, text) {
		r.event(c, kind, reason, text)
	}
}

func (r *reconciler) event(about client.Object, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(about, nil, kind, reason, "Approve", "%s", note.Fit(text))
	}
}

// retryWithPolicies is a source of work: each change of the policies, and of what
// they read, triggers the requests that wait for a decision.
func (r *reconciler) retryWithPolicies(ctx context.Context, q worker.Queue) error {
	r.Policies.Wake(ctx, v1alpha1.CertificateSigningRequests, q)
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
