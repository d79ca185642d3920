// Package approve approves the CertificateSigningRequests that need no person's
// decision, and reports on the others what they lack.
package approve

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

// controllerName is the approver's name in Kubernetes.
const controllerName = "csrapproving"

// Config is what the approver needs to run.
type Config struct {
	// Client is the approver's own identity at the API. It needs create on
	// subjectaccessreviews, update on certificatesigningrequests/approval and
	// approve on the signer kubernetes.io/kube-apiserver-client-kubelet.
	Client client.Client
	// Policies, if not nil, can decide instead: what they do not leave is not
	// approved here.
	Policies *policies.Policies
	// Settings are the user's settings.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records in the approver's name why a request is left
	// to a person.
	Events events.EventRecorder
	// Metrics, if not nil, is where the approver's metrics are registered.
	Metrics prometheus.Registerer
}

// Add adds the approver to mgr, whose cache it reads.
func Add(mgr ctrl.Manager, cfg Config) error {
	r, err := newReconciler(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		Watches(&certificatesv1.CertificateSigningRequest{}, turns.New(r.clock), builder.WithPredicates(arrivals())).
		WatchesRawSource(source.Func(r.retryWithPolicies)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: cfg.Settings.withDefaults().Concurrency,
			RateLimiter:             backOff(),
			ReconciliationTimeout:   time.Minute,
		}).
		Complete(r)
}

func newReconciler(cache client.Reader, cfg Config) (*reconciler, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	settings := cfg.Settings.withDefaults()
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the approver's metrics: %w", err)
	}
	return &reconciler{
		policy:   approval.Policy{Strict: settings.Strict},
		policies: cfg.Policies,
		cache:    cache,
		client:   cfg.Client,
		clock:    cfg.Clock,
		waiting:  newBacklog(),
		report:   reporter{metrics: metrics, events: cfg.Events},
	}, nil
}

// backOff limits retries after errors. It counts for each request separately: a
// flood of requests that have to wait does not slow down one that need not.
func backOff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](200*time.Millisecond, 5*time.Minute)
}

// arrivals lets a request pass when it begins to wait. What the decision
// depends on in the request never changes after that, so later changes are no
// reason to look at it.
func arrivals() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return waits(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return waits(e.ObjectNew) && (!waits(e.ObjectOld) || e.ObjectNew.GetUID() != e.ObjectOld.GetUID())
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return waits(e.Object) },
	}
}

func waits(o client.Object) bool {
	c, ok := o.(*certificatesv1.CertificateSigningRequest)
	return ok && approval.Waits(c)
}

// retryWithPolicies is a source of work: a change of the policies, or of what they
// read, can leave requests that they did not leave before.
func (r *reconciler) retryWithPolicies(ctx context.Context, q worker.Queue) error {
	if r.policies == nil {
		return nil
	}
	r.policies.Wake(ctx, v1alpha1.CertificateSigningRequests, q)
	worker.OnChange(ctx, r.policies.Subscribe, func() {
		list := &certificatesv1.CertificateSigningRequestList{}
		if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			worker.CannotWake(ctx, err, "Cannot list the requests that certificate policies may leave now; they are decided when they change")
			return
		}
		for i := range list.Items {
			if approval.Waits(&list.Items[i]) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	})
	return nil
}
