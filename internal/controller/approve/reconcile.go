package approve

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/request"
)

type csr = certificatesv1.CertificateSigningRequest

type reconciler struct {
	policy   approval.Policy
	policies *policies.Policies
	cache    client.Reader
	client   client.Client
	clock    clock.PassiveClock
	waiting  *backlog
	report   reporter
}

// Reconcile approves one request if it is pending and may be approved, unless the
// certificate policies decide about it.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &csr{}
	// The object belongs to the cache and must not be modified.
	err := r.cache.Get(ctx, req.NamespacedName, c, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)})
	if err != nil || !approval.Waits(c) {
		r.waiting.remove(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if action := r.policies.Next(ctx, request.FromCSR(c), policies.ConditionsOf(c)); action.Step != policies.StepLeave {
		r.waiting.remove(req.Name)
		return reconcile.Result{RequeueAfter: action.After}, nil
	}
	known, err := r.policy.Recognise(c)
	if err != nil {
		r.waiting.remove(req.Name)
		r.report.unrecognised(ctx, c, err)
		return reconcile.Result{}, nil
	}
	return r.decide(ctx, c, known)
}

// decide checks the requester's permission and approves.
func (r *reconciler) decide(ctx context.Context, c *csr, known []approval.Recogniser) (reconcile.Result, error) {
	start := r.clock.Now()
	permitted, err := r.permitted(ctx, c, known)
	switch {
	case err != nil:
		return r.unavailable(c, err)
	case permitted == nil:
		return r.refuse(ctx, c, known), nil
	}
	err = r.client.SubResource("approval").Update(ctx, permitted.Approve(c))
	switch {
	case apierrors.IsConflict(err):
		// This is neither an error nor news: the cache is about to catch up.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case client.IgnoreNotFound(err) != nil:
		return r.unavailable(c, fmt.Errorf("writing the approval: %w", err))
	}
	r.waiting.remove(c.Name)
	if err == nil {
		r.report.approved(ctx, c, *permitted, r.clock.Since(start))
	}
	return reconcile.Result{}, nil
}

// permitted returns the first recogniser for which the requester has the
// permission, or nil.
func (r *reconciler) permitted(ctx context.Context, c *csr, known []approval.Recogniser) (*approval.Recogniser, error) {
	for _, recogniser := range known {
		review := &authorizationv1.SubjectAccessReview{Spec: recogniser.Permission(c)}
		if err := r.client.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("checking the requester's permission to create %s: %w", recogniser.Name, err)
		}
		if review.Status.Allowed {
			return &recogniser, nil
		}
	}
	return nil, nil
}

// refuse leaves c to a person until the requester gets the permission after
// all. Meanwhile, new requests come first.
func (r *reconciler) refuse(ctx context.Context, c *csr, known []approval.Recogniser) reconcile.Result {
	wait, news := r.waiting.add(c, reasonNotPermitted, r.clock.Now())
	if news {
		r.report.notPermitted(ctx, c, &approval.NotPermittedError{User: c.Spec.Username, Recognisers: known})
	}
	return reconcile.Result{RequeueAfter: wait, Priority: ptr.To(handler.LowPriority)}
}

// unavailable handles faults of the approver and of the API.
func (r *reconciler) unavailable(c *csr, err error) (reconcile.Result, error) {
	if _, news := r.waiting.add(c, reasonUnavailable, r.clock.Now()); news {
		r.report.unavailable(c)
	}
	return reconcile.Result{}, err
}
