package acmeapprove

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/facts"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/worker"
)

// eventForbidden is the reason of the Event on requests that the API does not let
// the approver approve.
const eventForbidden = "ApprovalForbidden"

// Reconcile decides about one request.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	stored := r.kind.New()
	if err := r.cache.Get(ctx, key.NamespacedName, stored, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.takes(stored) {
		return reconcile.Result{}, nil
	}
	asked := r.kind.View(stored)
	o, err := r.orderOf(ctx, asked)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	if r.ended(o) {
		return r.write(ctx, stored, decision{denied: true, reason: acmeorder.ReasonOrderEnded, message: fmt.Sprintf("The order %s has ended: nobody waits for the certificate", client.ObjectKeyFromObject(o))})
	}
	if by, err := r.supersededBy(ctx, o); by != nil || err != nil {
		if err != nil {
			return reconcile.Result{}, err
		}
		return r.write(ctx, stored, decision{denied: true, reason: acmeorder.ReasonSuperseded, message: fmt.Sprintf("The later order %s of the account is approved, which is for the same names", client.ObjectKeyFromObject(by))})
	}
	switch action := r.Policies.Next(ctx, asked, r.kind.Conditions(stored)); {
	case action.Step == policies.StepCarry:
		return r.write(ctx, stored, decision{reason: acmeorder.ReasonCarriedOver, message: action.Message})
	case action.Step != policies.StepLeave:
		return reconcile.Result{RequeueAfter: action.After}, nil
	}
	approved, why, err := r.approval(ctx, o, asked)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil // the endpoint is gone, which ends its orders
	case err != nil:
		return reconcile.Result{}, err
	case approved == nil:
		log.FromContext(ctx).V(1).Info("The request of an AcmeOrder is left to people", "uid", asked.UID, "order", client.ObjectKeyFromObject(o), "why", why)
		return reconcile.Result{RequeueAfter: r.waitFor(asked)}, nil
	}
	return r.write(ctx, stored, *approved)
}

// orderOf returns the order whose request this is by its name and its UID, as the
// API has it; nil if there is none. The labels and annotations of the request are
// not looked at.
func (r *reconciler) orderOf(ctx context.Context, asked request.Request) (*v1alpha1.AcmeOrder, error) {
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
func (r *reconciler) approval(ctx context.Context, o *v1alpha1.AcmeOrder, asked request.Request) (*decision, string, error) {
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
			return &decision{
				reason:  acmeorder.ReasonByRight,
				message: fmt.Sprintf("The ServiceAccount may have requests for the AcmeEndpoint %s approved: %s has proven control of its names", o.Spec.Endpoint, client.ObjectKeyFromObject(o)),
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
func (r *reconciler) mayAutoApprove(ctx context.Context, endpoint string, who v1alpha1.AcmeServiceAccount) (bool, error) {
	requester := request.ServiceAccount(who.Namespace, who.Name)
	return r.allows(ctx, authorizationv1.SubjectAccessReviewSpec{
		User: requester.Username, Groups: requester.Groups,
		ResourceAttributes: new(acmeorder.OnEndpoint(rights.ACMEAutoApprove, endpoint)),
	})
}

// allows asks whether somebody may do something.
func (r *reconciler) allows(ctx context.Context, asked authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: asked}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking what %s may do: %w", asked.User, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// decision is an approval or a denial.
type decision struct {
	denied          bool
	reason, message string
}

// write stores a decision.
func (r *reconciler) write(ctx context.Context, stored client.Object, d decision) (reconcile.Result, error) {
	decided, condition := stored.DeepCopyObject().(client.Object), quorum.Condition{Type: requestkind.Approved, Status: "True", Reason: d.reason, Message: note.Fit(d.message)}
	if d.denied {
		condition.Type = requestkind.Denied
	}
	err := r.kind.Decide(decided, condition, r.Clock.Now())
	if err == nil {
		err = r.Client.SubResource(r.kind.Decision.Subresource).Update(ctx, decided, client.FieldOwner(Name))
	}
	switch {
	case errors.Is(err, requestkind.ErrDecided):
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: worker.ConflictPause}, nil
	case apierrors.IsForbidden(err):
		r.event(stored, corev1.EventTypeWarning, eventForbidden, fmt.Sprintf("%s may not decide about it: %v", Name, err))
		return reconcile.Result{}, fmt.Errorf("deciding about a request: %w", err)
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, fmt.Errorf("deciding about a request: %w", err)
	}
	log.FromContext(ctx).V(1).Info("Decided about the request of an AcmeOrder", "denied", d.denied, "name", stored.GetName(), "uid", stored.GetUID(), "reason", d.reason)
	return reconcile.Result{}, nil
}

// The bounds of the wait until a request that is left to people is looked at again:
// its ServiceAccount may have got the right.
const (
	minWait = time.Second
	maxWait = 30 * time.Minute
)

// waitFor returns when to look at a request again. A right that comes late is seen
// after at most another quarter of the time.
func (r *reconciler) waitFor(asked request.Request) time.Duration {
	return min(max(r.Clock.Since(asked.Created)/4, minWait), maxWait)
}

func (r *reconciler) event(about client.Object, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(about, nil, kind, reason, "Approve", "%s", note.Fit(text))
	}
}
