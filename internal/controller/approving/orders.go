package approving

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// ordersName is the name on the command line, and in managed fields, of the approver of
// requests of ACME orders.
const ordersName = "acme-approver"

// AddOrders adds the approver of the requests of ACME orders to mgr, whose cache it reads.
// It approves requests whose ServiceAccount needs no approval by a person, and requests for
// which the approval of an earlier order counts. It runs while the API serves AcmeOrders,
// and handles CertificateRequests while the API serves them. Its account needs update on
// certificatesigningrequests/approval and certificaterequests/status, approve on the
// signers and issuers of profiles, create on subjectaccessreviews, and get on
// serviceaccounts: it ignores requests of deleted ServiceAccounts.
func AddOrders(mgr ctrl.Manager, cfg Config) error {
	for _, kind := range requestkind.All {
		if kind.Decision == nil {
			continue
		}
		objects := issueoncreate.Cache(mgr.GetCache())
		r := &orders{objects, facts.New(cfg.Client), approver{
			Config: cfg.withDefaults(), kind: kind, cache: objects, owner: ordersName, conflictPause: worker.ConflictPause, cannotWake: mayLeaveForNow,
		}}
		r.rules = rules{takes: r.takes, first: r.first, left: r.left, carry: r.carry, failed: r.failed}
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("adding the approver of requests of AcmeOrders: %w", err)
		}
	}
	return nil
}

// orders approves the requests of ACME orders of one kind.
type orders struct {
	// objects has orders, and requests, also those that are being created. What decides
	// about an approval is read from the API.
	objects cache.Cache
	facts   *facts.Facts
	approver
}

// Start implements manager.Runnable.
func (r *orders) Start(ctx context.Context) error {
	all := worker.OneVersion(v1alpha1.GroupVersion, "acmeorders", r.Versions)
	return all.While(ctx, ordersName, "Approving requests of AcmeOrders", func(ctx context.Context, _ string) error {
		requests := worker.Resource{Group: r.kind.Resource.Group, Versions: r.kind.Versions, Name: r.kind.Resource.Resource, Lookup: r.Versions}
		requests.Follow(ctx, "Approving "+r.kind.Resource.Resource+" of AcmeOrders", r.work)
		return nil
	})
}

func (r *orders) work(ctx context.Context, _ string) error {
	const concurrency = 8
	named := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.names(e.Object) || r.orderEnded(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.names(e.ObjectNew) && (!r.names(e.ObjectOld) || comparedWithOthers(e.ObjectOld, e.ObjectNew)) || r.orderEnded(e.ObjectNew) && !r.orderEnded(e.ObjectOld)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(e event.GenericEvent) bool { return r.names(e.Object) || r.orderEnded(e.Object) },
	}
	return r.watch(ctx, ordersName, r, worker.Options{Concurrency: concurrency, FirstPause: 200 * time.Millisecond, LastPause: lastPause, Timeout: time.Minute},
		source.Kind[client.Object](r.objects, r.kind.New(), fairqueue.New(r.Clock), begins(r.takes)),
		source.Kind[client.Object](r.objects, &v1alpha1.AcmeOrder{}, handler.EnqueueRequestsFromMapFunc(requestOf), named))
}

// takes reports whether a request can be one of an order, and is not decided.
func (r *orders) takes(o client.Object) bool {
	return acmeorder.OrderOfRequest(o.GetName()) != "" && requestkind.Undecided(o)
}

// names reports whether an order names a request of this kind by its UID.
func (r *orders) names(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && o.Status.State == v1alpha1.AcmeOrderProcessing && o.Status.Request != nil && o.Status.Request.UID != "" && o.Status.Request.Kind == string(r.kind.Name)
}

// orderEnded reports whether an order has ended without a certificate, while the request
// may wait. CertificateSigningRequests are deleted then.
func (r *orders) orderEnded(object client.Object) bool {
	o, ok := object.(*v1alpha1.AcmeOrder)
	return ok && r.kind.Name == request.CertificateRequests && o.Status.State == v1alpha1.AcmeOrderInvalid && o.Status.Request != nil && o.Status.Request.Kind == string(r.kind.Name)
}

// comparedWithOthers reports whether the status of an order records that the approval of
// another order matters for it.
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

// first finds the order of a request, and denies the request if the order does not need it
// any more.
func (r *orders) first(ctx context.Context, p *pass) (result reconcile.Result, done bool, err error) {
	if p.order, err = r.orderOf(ctx, p.asked); p.order == nil || err != nil {
		return reconcile.Result{}, true, err
	}
	if r.orderEnded(p.order) {
		result, err = r.say(ctx, p, requestkind.Denied, acmeorder.ReasonOrderEnded, fmt.Sprintf("The order %s has ended: its client no longer waits for the certificate", client.ObjectKeyFromObject(p.order)))
		return result, true, err
	}
	by, err := r.supersededBy(ctx, p.order)
	if by == nil || err != nil {
		return reconcile.Result{}, false, err
	}
	result, err = r.say(ctx, p, requestkind.Denied, acmeorder.ReasonSuperseded, fmt.Sprintf("A later order of the account for the same names, %s, is approved", client.ObjectKeyFromObject(by)))
	return result, true, err
}

// carry approves a request for which policies count the approvals of an earlier order.
func (r *orders) carry(ctx context.Context, p *pass, outcome policies.Outcome) (reconcile.Result, error) {
	return r.say(ctx, p, requestkind.Approved, acmeorder.ReasonCarriedOver, outcome.Message)
}

// left approves a request that needs no person.
func (r *orders) left(ctx context.Context, p *pass, _ policies.Outcome) (reconcile.Result, error) {
	approved, why, err := r.approval(ctx, p.order, p.asked)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil // the endpoint is gone, which ends its orders
	case err != nil:
		return reconcile.Result{}, err
	case approved == nil:
		log.FromContext(ctx).V(1).Info("A person has to approve the request of an AcmeOrder", "uid", p.asked.UID, "order", client.ObjectKeyFromObject(p.order), "why", why)
		return reconcile.Result{RequeueAfter: waitAfter(r.Clock.Since(p.asked.Created))}, nil
	}
	return r.say(ctx, p, requestkind.Approved, approved.Reason, approved.Message)
}

// say stores a decision.
func (r *orders) say(ctx context.Context, p *pass, decision, reason, message string) (reconcile.Result, error) {
	return r.decide(ctx, p, quorum.Condition{Type: decision, Reason: reason, Message: eventtext.Fit(message)}, reconcile.Result{}, func() {
		log.FromContext(ctx).V(1).Info("Decided about the request of an AcmeOrder", "denied", decision == requestkind.Denied, "name", p.asked.Name, "uid", p.asked.UID, "reason", reason)
	})
}

func (r *orders) failed(_ context.Context, p *pass, err error) (reconcile.Result, error) {
	if apierrors.IsForbidden(err) {
		r.event(p.object, corev1.EventTypeWarning, reasonForbidden, fmt.Sprintf("%s may not decide about it: %v", ordersName, err))
	}
	return reconcile.Result{}, fmt.Errorf("deciding about a request: %w", err)
}

// orderOf returns the order whose request this is by its name and its UID, as the API has
// it; nil if there is none. The labels and annotations of the request are ignored.
func (r *orders) orderOf(ctx context.Context, asked request.Request) (*v1alpha1.AcmeOrder, error) {
	key, possible := acmeorder.OrderKeyOf(asked.Requester.Username, asked.Namespace, asked.Name)
	if !possible {
		return nil, nil
	}
	o := &v1alpha1.AcmeOrder{}
	if err := r.Client.Get(ctx, key, o); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !acmeorder.NamesRequest(o, asked) {
		return nil, nil
	}
	of := o.Status.Request
	if of.UID == "" && issueoncreate.Is(ctx) {
		// The order can name the UID only when the request is stored. By its name
		// alone it is the request that the order gets then, with the same checks.
		of.UID = types.UID(asked.UID)
	}
	if string(of.UID) != asked.UID {
		return nil, nil
	}
	return o, nil
}

// approval returns how the request of an order is approved, or why it is not.
func (r *orders) approval(ctx context.Context, o *v1alpha1.AcmeOrder, asked request.Request) (*acmeorder.Said, string, error) {
	endpoint, err := r.facts.Endpoint(ctx, o.Spec.Endpoint)
	if err != nil {
		return nil, "", err
	}
	of, err := r.facts.Account(ctx, o.Spec.Account)
	if err != nil {
		return nil, "", err
	}
	if of.Account != nil && !issueoncreate.Is(ctx) { // who creates a request has just authenticated
		if of.ServiceAccountUID, of.ServiceAccountGone, err = facts.ServiceAccount(ctx, r.Client, of.Account.Spec.ServiceAccount); err != nil {
			return nil, "", fmt.Errorf("reading the ServiceAccount: %w", err)
		}
	}
	proof := acmeorder.Approval{Order: o, Request: asked, Endpoint: endpoint, Account: of}
	if err := proof.Check(r.Clock.Now()); err != nil {
		return nil, err.Error(), nil
	}
	why := "the endpoint leaves approvals to people"
	if acmeorder.NeedsNoPerson(endpoint.Spec()) {
		allowed, err := r.mayAutoApprove(ctx, o.Spec.Endpoint, of.Account.Spec.ServiceAccount)
		switch {
		case err != nil:
			return nil, "", err
		case allowed:
			return &acmeorder.Said{
				Reason:  acmeorder.ReasonByRight,
				Message: fmt.Sprintf("Requests of the ServiceAccount for the AcmeEndpoint %s are approved automatically: %s has proven control of its names", o.Spec.Endpoint, client.ObjectKeyFromObject(o)),
			}, "", nil
		}
		why = fmt.Sprintf("%s may not %s acmeendpoints %s", asked.Requester.Username, rights.ACMEAutoApprove, o.Spec.Endpoint)
	}
	if o.Status.CarryFrom == "" {
		return nil, why, nil
	}
	return r.carried(ctx, proof)
}

// mayAutoApprove asks whether requests of a ServiceAccount need no person.
func (r *orders) mayAutoApprove(ctx context.Context, endpoint string, who v1alpha1.AcmeServiceAccount) (bool, error) {
	requester := request.ServiceAccount(who.Namespace, who.Name)
	return r.allows(ctx, authorizationv1.SubjectAccessReviewSpec{
		User: requester.Username, Groups: requester.Groups,
		ResourceAttributes: new(acmeorder.OnEndpoint(rights.ACMEAutoApprove, endpoint)),
	})
}

// allows reports whether the API's authorization permits an action.
func (r *orders) allows(ctx context.Context, asked authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: asked}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("checking the rights of %s: %w", asked.User, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}
