package requestapprove

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/worker"
)

// act does what the policies say about a request.
func (r *reconciler) act(ctx context.Context, cr *cmv1.CertificateRequest, action policies.Action) (reconcile.Result, error) {
	later := reconcile.Result{RequeueAfter: action.After}
	finding := issuance.Finding{Reason: action.Decider(), Message: note.Fit(action.Message)}
	kind, reason := corev1.EventTypeNormal, action.Reason
	if action.RequestPolicies != nil {
		finding.Message, reason = action.Message, action.RequestPolicies.Reason // byte for byte that of approver-policy
	}
	switch action.Step {
	case policies.StepApprove:
		if issuance.SetDecision(cr, cmv1.CertificateRequestConditionApproved, finding, r.Clock.Now()) != nil {
			return reconcile.Result{}, nil // it has been decided
		}
	case policies.StepDeny:
		if issuance.SetDecision(cr, cmv1.CertificateRequestConditionDenied, finding, r.Clock.Now()) != nil {
			return reconcile.Result{}, nil
		}
		kind = corev1.EventTypeWarning
		if action.RequestPolicies == nil {
			reason = policies.EventDenied
		}
	case policies.StepAwait:
		if !r.await(cr, action) {
			r.waits(cr, action)
			return later, nil
		}
	default:
		r.waits(cr, action)
		return later, nil
	}
	return r.write(ctx, cr, later, func() {
		log.FromContext(ctx).V(1).Info("Decided by certificate policies", "uid", cr.UID, "requester", cr.Spec.Username, "reason", action.Reason)
		r.report(cr, kind, reason, action.Message)
	})
}

// waits reports why a request is not decided yet.
func (r *reconciler) waits(cr *cmv1.CertificateRequest, action policies.Action) {
	if event := action.WaitingEvent(); event != nil {
		r.report(cr, event.Type, event.Reason, event.Message)
	}
}

// report records an Event unless the last one said the same.
func (r *reconciler) report(cr *cmv1.CertificateRequest, kind, reason, text string) {
	if r.Policies.News(cr.UID, reason, text) {
		r.event(cr, kind, reason, text)
	}
}

func (r *reconciler) reportVotes(cr *cmv1.CertificateRequest, asked request.Request, conditions []quorum.Condition) {
	for _, vote := range r.Policies.NewVotes(asked, conditions) {
		r.event(cr, vote.Type, vote.Reason, vote.Message)
		for _, policy := range vote.Overridden {
			r.event(policy, vote.Type, vote.Reason, vote.About(asked))
		}
	}
}

// await sets the condition that says which people are missing. It reports
// whether the request did not have it.
func (r *reconciler) await(cr *cmv1.CertificateRequest, action policies.Action) bool {
	awaiting := action.Awaiting()
	kind := cmv1.CertificateRequestConditionType(awaiting.Type)
	if has := certmanager.RequestCondition(cr, kind); has != nil && has.Message == awaiting.Message {
		return false
	}
	certmanager.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, awaiting.Reason, awaiting.Message, metav1.NewTime(r.Clock.Now()))
	return true
}

// retryWithPolicies is a source of work: each change of the policies, and of what
// they read, triggers the requests that wait for a decision.
func (r *reconciler) retryWithPolicies(ctx context.Context, q worker.Queue) error {
	r.Policies.Wake(ctx, request.CertificateRequests, q)
	worker.OnChange(ctx, r.Policies.Subscribe, func() {
		list := &cmv1.CertificateRequestList{}
		if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			worker.CannotWake(ctx, err, "Cannot list the requests that certificate policies may decide now; they are decided when they change")
			return
		}
		for i := range list.Items {
			if requests.Undecided(&list.Items[i]) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	})
	return nil
}
