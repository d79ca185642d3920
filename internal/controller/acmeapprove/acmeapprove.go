// Package acmeapprove approves the requests of ACME orders whose ServiceAccounts
// need no person for it, or for which the approval of an earlier order counts.
package acmeapprove

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/facts"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

// Name is the controller's name on the command line, and in managed fields.
const Name = "acme-approver"

// Config is what the approver needs to run.
type Config struct {
	// Client is the approver's own identity. It needs update on
	// certificatesigningrequests/approval and certificaterequests/status, approve on
	// the signers and issuers of profiles, create on subjectaccessreviews, and get on
	// serviceaccounts: requests of one that is gone are left alone.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Policies, if not nil, decide first: only what they leave is approved here.
	Policies *policies.Policies
	// OnCreate, if not nil, has requests approved in the calls that create them, too.
	OnCreate *issueoncreate.Hub
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what could not be approved.
	Events events.EventRecorder
}

const (
	concurrency = 8
	timeout     = time.Minute
	// The first and the longest pause after errors.
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Minute
)

// Add adds the approver to mgr, whose cache it reads. It works while the API has
// AcmeOrders, on CertificateRequests while it has those, too.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	for _, k := range requestkind.All {
		if k.Decision == nil {
			continue
		}
		r := &reconciler{Config: cfg, kind: k, cache: issueoncreate.Cache(mgr.GetCache()), facts: facts.New(cfg.Client)}
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("adding the approver of requests of AcmeOrders: %w", err)
		}
	}
	return nil
}

// reconciler approves the requests of one kind.
type reconciler struct {
	Config
	kind *requestkind.Kind
	// cache has requests, also those that are being created. What decides about an
	// approval is read from the API.
	cache cache.Cache
	facts *facts.Facts
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	orders := worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions)
	return orders.While(ctx, Name, "Approving requests of AcmeOrders", func(ctx context.Context, _ string) error {
		requests := worker.Resource{Group: r.kind.Resource.Group, Versions: []string{"v1"}, Name: r.kind.Resource.Resource, Lookup: r.Versions}
		requests.Follow(ctx, "Approving "+r.kind.Resource.Resource+" of AcmeOrders", r.work)
		return nil
	})
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	approving, err := worker.New(ctx, Name, r, worker.Options{Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: timeout})
	if err != nil {
		return err
	}
	begins := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.takes(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.takes(e.ObjectNew) && (!r.takes(e.ObjectOld) || e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return r.takes(e.Object) },
	}
	named := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.names(e.Object) || r.ended(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.names(e.ObjectNew) && (!r.names(e.ObjectOld) || comparedWithOthers(e.ObjectOld, e.ObjectNew)) || r.ended(e.ObjectNew) && !r.ended(e.ObjectOld)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return r.names(e.Object) || r.ended(e.Object) },
	}
	for _, watch := range []source.Source{
		source.Kind[client.Object](r.cache, r.kind.New(), turns.New(r.Clock), begins),
		source.Kind[client.Object](r.cache, &v1alpha1.AcmeOrder{}, handler.EnqueueRequestsFromMapFunc(requestOf), named),
		source.Func(r.retryWithPolicies),
	} {
		if err := approving.Watch(watch); err != nil {
			return fmt.Errorf("watching for requests of AcmeOrders: %w", err)
		}
	}
	r.OnCreate.Start(ctx, issueoncreate.Step{Resource: r.kind.Resource, Role: issueoncreate.Approve, Takes: r.takes, Reconciler: r})
	return approving.Start(ctx)
}

// takes reports whether a request can be one of an order, and is not decided.
func (r *reconciler) takes(o client.Object) bool {
	return acmeorder.OrderOfRequest(o.GetName()) != "" && requestkind.Undecided(o)
}

// names reports whether an order names a request of this kind by its UID.
func (r *reconciler) names(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && o.Status.State == v1alpha1.AcmeOrderProcessing && o.Status.Request != nil && o.Status.Request.UID != "" && o.Status.Request.Kind == string(r.kind.Name)
}

// ended reports whether an order has ended without a certificate, while the request
// may wait. CertificateSigningRequests are deleted then.
func (r *reconciler) ended(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && r.kind.Name == request.CertificateRequests && o.Status.State == v1alpha1.AcmeOrderInvalid && o.Status.Request != nil && o.Status.Request.Kind == string(r.kind.Name)
}

// comparedWithOthers reports whether an order has got to know that the approval of
// another one matters for it.
func comparedWithOthers(old, object client.Object) bool {
	before, wasOrder := old.(*v1alpha1.AcmeOrder)
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && wasOrder && (o.Status.CarryFrom != before.Status.CarryFrom || o.Status.SupersededBy != before.Status.SupersededBy)
}

func requestOf(_ context.Context, object client.Object) []reconcile.Request {
	o, ok := object.(*v1alpha1.AcmeOrder)
	if !ok || o.Status.Request == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.Status.Request.Namespace, Name: o.Status.Request.Name}}}
}

// retryWithPolicies is a source of work: a change of the policies, or of what they
// read, can leave requests that they did not leave before.
func (r *reconciler) retryWithPolicies(ctx context.Context, q worker.Queue) error {
	if r.Policies == nil {
		return nil
	}
	r.Policies.Wake(ctx, r.kind.Name, q)
	worker.OnChange(ctx, r.Policies.Subscribe, func() {
		waiting := r.kind.NewList()
		if err := r.cache.List(ctx, waiting, client.UnsafeDisableDeepCopy); err != nil {
			worker.CannotWake(ctx, err, "Cannot list the requests that certificate policies may leave now; they are looked at again after a while")
		}
		for _, o := range requestkind.Items[client.Object](waiting) {
			if r.takes(o) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
		}
	})
	return nil
}
