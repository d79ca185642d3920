package requestsign

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/signer"
)

// Reconcile takes the next step for one request.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cr := &cmv1.CertificateRequest{}
	if err := r.cache.Get(ctx, key.NamespacedName, cr); err != nil {
		r.waiting.forget(key.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch requests.Due(cr) {
	case requests.Deny:
		return r.put(ctx, cr, denied, certmanager.NoType, r.reportOn(cr, certmanager.ReferredSigner(cr)))
	case requests.Await:
		return r.await(cr), nil
	case requests.External:
		return r.hint(cr), nil
	case requests.Sign:
		return r.sign(ctx, cr)
	}
	r.waiting.forget(key.NamespacedName)
	return reconcile.Result{}, nil
}

// await reports that a request needs an approval.
func (r *reconciler) await(cr *cmv1.CertificateRequest) reconcile.Result {
	if wait := cr.CreationTimestamp.Add(requests.ApprovalGrace).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.tell(cr, EventAwaits, "Not signing CertificateRequest until it is Approved: "+decideByHand(cr))
	return reconcile.Result{}
}

// hint reports a request that another controller has to answer, once that takes
// long: when an issuer is installed, it is easy to forget what is needed for
// that.
func (r *reconciler) hint(cr *cmv1.CertificateRequest) reconcile.Result {
	since, what := cr.CreationTimestamp.Time, "Nobody has approved it: "+decideByHand(cr)
	if approved := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved); approved != nil {
		if approved.LastTransitionTime != nil {
			since = approved.LastTransitionTime.Time
		}
		what = fmt.Sprintf("It is approved, and nothing has answered it: the program that signs for issuers of the group %s has to. Does it run?",
			certmanager.IssuerGroup(cr.Spec.IssuerRef))
	}
	if wait := since.Add(requests.ApprovalGrace).Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.tell(cr, EventElsewhere, what)
	return reconcile.Result{}
}

// tell records an Event about a request that waits for others.
func (r *reconciler) tell(cr *cmv1.CertificateRequest, reason, text string) {
	if recorder := r.Events[certmanager.NoType]; recorder != nil {
		answer.Report{Object: cr, Recorder: recorder}.Await(reason, text)
	}
}

func decideByHand(cr *cmv1.CertificateRequest) string {
	return fmt.Sprintf("somebody who may has to, with 'certplane approve -n %[1]s %[2]s' or 'certplane deny -n %[1]s %[2]s'", cr.Namespace, cr.Name)
}

// sign calls the issuer of a request. Its errors are API errors and temporary.
func (r *reconciler) sign(ctx context.Context, cr *cmv1.CertificateRequest) (reconcile.Result, error) {
	asked := request.FromCertificateRequest(cr)
	who := asked.Issuer.Signer
	report := r.reportOn(cr, who)
	found, err := find(ctx, r.cache, who)
	if err != nil {
		return reconcile.Result{}, err
	}
	if o := requests.ObstacleOf(found, who, issuertypes.Sign); !o.None() {
		return r.put(ctx, cr, answer.Wait(o.Reason, "%s", o.Message), certmanager.NoType, report)
	}
	o := decide(r.ask(ctx, asked, found, report.Start))
	return r.put(ctx, cr, o, certmanager.TypeOf(found.GetSpec()), report)
}

// reportOn returns the report on a request that is processed from now on.
func (r *reconciler) reportOn(cr *cmv1.CertificateRequest, by certmanager.Signer) answer.Report {
	return answer.Report{
		Object: cr, Signer: by.String(), Facts: []any{"signer", by.String(), "uid", cr.UID, "requester", cr.Spec.Username},
		Metrics: r.metrics, Clock: r.Clock, Start: r.Clock.Now(),
	}
}

func (r *reconciler) ask(ctx context.Context, asked request.Request, found cmv1.GenericIssuer, now time.Time) (*signer.Issued, error) {
	req, err := issuing.RequestOf(asked)
	if err != nil {
		return nil, err
	}
	r.waiting.put(types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, r.issuers.Needs(found, req))
	return r.issuers.Sign(ctx, found, req, now)
}

// put stores an outcome in the name of the component that answers for issuers
// of a type.
func (r *reconciler) put(ctx context.Context, cr *cmv1.CertificateRequest, o answer.Outcome, by certmanager.IssuerType, report answer.Report) (reconcile.Result, error) {
	if recorder := r.Events[by]; recorder != nil {
		report.Recorder = recorder
	}
	component := Component
	if t, ok := issuertypes.Find(by); ok {
		component = t.Component
	}
	due := requests.Due(cr)
	kind := answer.CertificateRequests(r.Client, answer.UpdateRequest(r.Client, component), r.Clock, func(latest *cmv1.CertificateRequest) bool {
		return requests.Due(latest) == due
	})
	result, err := kind.Put(ctx, cr, o, report)
	if o.Final() && err == nil {
		r.waiting.forget(client.ObjectKeyFromObject(cr))
	}
	return result, err
}
