package approving

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// act applies the decision of the policies to a request.
func (a *approver) act(ctx context.Context, p *pass, outcome policies.Outcome) (reconcile.Result, error) {
	later := reconcile.Result{RequeueAfter: outcome.After}
	decision := quorum.Condition{Type: requestkind.Approved, Reason: outcome.Reason, Message: eventtext.Fit(outcome.Message)}
	if a.kind.Decision.ByDecider {
		decision.Reason = outcome.Decider()
	}
	kind, reason := corev1.EventTypeNormal, outcome.Reason
	if outcome.RequestPolicies != nil {
		decision.Message, reason = outcome.Message, outcome.RequestPolicies.Reason // byte for byte that of approver-policy
	}
	report := func() {
		log.FromContext(ctx).V(1).Info("Decided by certificate policies", "uid", p.asked.UID, "requester", p.asked.Requester.Username, "reason", outcome.Reason)
		a.report(p, kind, reason, outcome.Message)
	}
	switch outcome.Do {
	case v1alpha1.OutcomeApprove:
		return a.decide(ctx, p, decision, later, report)
	case v1alpha1.OutcomeDeny:
		decision.Type, kind = requestkind.Denied, corev1.EventTypeWarning
		if outcome.RequestPolicies == nil {
			reason = policies.EventDenied
		}
		return a.decide(ctx, p, decision, later, report)
	case v1alpha1.OutcomeNeedPeople:
		if awaiting := outcome.Awaiting(); !p.shows(awaiting) {
			changed := p.object.DeepCopyObject().(client.Object)
			a.kind.Decision.Set(changed, awaiting, a.Clock.Now())
			return a.write(ctx, p, changed, later, report)
		}
	}
	log.FromContext(ctx).V(2).Info("Certificate policies cannot decide yet", "uid", p.asked.UID, "reason", outcome.Reason, "message", outcome.Message)
	if event := outcome.WaitingEvent(); event != nil {
		a.report(p, event.Type, event.Reason, event.Message)
	}
	return later, nil
}

// shows reports whether a request has a condition already.
func (p *pass) shows(condition quorum.Condition) bool {
	for _, has := range p.conditions {
		if has.Type == condition.Type && has.Message == condition.Message {
			return true
		}
	}
	return false
}

// report records an Event unless the last one said the same.
func (a *approver) report(p *pass, kind, reason, text string) {
	if a.Policies.Events().News(types.UID(p.asked.UID), reason, text) {
		a.event(p.object, kind, reason, text)
	}
}

// reportVotes records the approvals of people that have not been reported.
func (a *approver) reportVotes(p *pass) {
	if !a.actor {
		return
	}
	for _, vote := range a.Policies.Events().NewVotes(p.asked, p.conditions) {
		a.event(p.object, vote.Type, vote.Reason, vote.Message)
		for _, policy := range vote.Overridden {
			a.event(policy, vote.Type, vote.Reason, vote.About(p.asked))
		}
	}
}

// ended tells the policies that a request does not wait any more.
func (a *approver) ended(key types.NamespacedName) {
	if a.actor {
		a.Policies.Undecided().Ended(a.kind.Name, key)
	}
}

// What is logged if the requests cannot be listed that policies have woken.
const (
	mayDecide      = "Cannot list the requests that certificate policies may decide now; they are decided when they change"
	mayLeave       = "Cannot list the requests that certificate policies may leave now; they are decided when they change"
	mayLeaveForNow = "Cannot list the requests that certificate policies may leave now; the controller tries again later"
)

// retryWithPolicies returns a source of work: each change of the policies, and of what
// they read, triggers the requests that wait.
func (a *approver) retryWithPolicies(waits func(client.Object) bool) func(context.Context, worker.Queue) error {
	return func(ctx context.Context, q worker.Queue) error {
		if a.Policies == nil {
			return nil
		}
		a.Policies.Undecided().Wake(ctx, a.kind.Name, q)
		worker.OnChange(ctx, a.Policies.Subscribe, func() {
			list := a.kind.NewList()
			if err := a.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				worker.CannotWake(ctx, err, a.cannotWake)
				return
			}
			for _, object := range requestkind.Items[client.Object](list) {
				if waits(object) {
					q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
				}
			}
		})
		return nil
	}
}
