package issue

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// hold leaves an issuance alone that another controller has just begun, as it may
// when the leader changes: the key, which is stored before the request, may not have
// arrived in the cache.
func (t *pass) hold(context.Context) (ends bool, err error) {
	until := issuance.HeldUntil(t.Situation, t.nextKeys, t.now)
	t.requeueBy(until)
	return !until.IsZero(), nil
}

// restoreRevision restores the revision that a restored Certificate has lost.
func (t *pass) restoreRevision(context.Context) (ends bool, err error) {
	if revision := issuance.RestoredRevision(t.Certificate, t.requests); revision != nil {
		t.setStatus(issuing, func(crt *cmv1.Certificate) { crt.Status.Revision = revision })
	}
	return false, nil
}

// finish ends an issuance whose certificate is in its Secret, although its end
// was not written to the status.
func (t *pass) finish(ctx context.Context) (ends bool, err error) {
	if !issuance.CanBeFinished(t.Situation) {
		return false, nil
	}
	if err := t.readAnswers(ctx); err != nil {
		return false, err
	}
	if issuance.IsFinished(t.Situation) {
		t.unsettled = true
		t.setStatus(issuing, issuance.SetIssued)
		t.tellNormal(issuing, issuance.Finding{Reason: issuance.EventIssuing, Message: issuance.MessageIssued})
	}
	return false, nil
}

// tellReadiness sets the Ready condition, which reports whether the current certificate is
// suitable.
func (t *pass) tellReadiness(context.Context) (ends bool, err error) {
	t.setReadiness(readiness)
	return false, nil
}

func (t *pass) setReadiness(who actor) {
	ready := issuance.Ready(t.Situation, t.now)
	t.requeueBy(ready.Again)
	before, wasRevoked := readyMessage(t.Certificate), certmanager.CertificateIs(t.Certificate, issuance.ConditionRevoked)
	t.setStatus(who, func(crt *cmv1.Certificate) { issuance.SetReadiness(crt, ready, t.now) })
	if !ready.Revoked.None() && !wasRevoked {
		t.tellWarning(readiness, issuance.Finding{Reason: issuance.ReasonRevoked, Message: ready.Revoked.Message})
	}
	if !ready.Overwritten.None() && readyMessage(t.Certificate) != before {
		t.tellWarning(readiness, ready.Overwritten)
	}
}

func readyMessage(crt *cmv1.Certificate) string {
	if ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady); ready != nil {
		return ready.Message
	}
	return ""
}

// adopt ends an issuance that is no longer needed.
func (t *pass) adopt(context.Context) (ends bool, err error) {
	why := issuance.Adopt(t.Situation, t.now)
	if why.None() {
		return false, nil
	}
	t.unsettled = true
	t.setStatus(trigger, issuance.SetAbandoned)
	t.tellNormal(trigger, why)
	return false, nil
}

// release ends an issuance whose Secret belongs to another Certificate.
func (t *pass) release(context.Context) (ends bool, err error) {
	why := issuance.Yield(t.Situation)
	if why.None() {
		return false, nil
	}
	t.unsettled = true
	t.setStatus(trigger, issuance.SetAbandoned)
	t.tellWarning(trigger, why)
	return false, nil
}

// start starts an issuance if one is due.
func (t *pass) start(ctx context.Context) (ends bool, err error) {
	start := t.Settings.backoff().Decide(t.Situation, t.now)
	t.requeueBy(start.Again)
	if start.Held != "" {
		log.FromContext(ctx).V(1).Info("Not issuing yet", "why", start.Held)
	}
	if start.Why.None() {
		return false, nil
	}
	t.setStatus(trigger, func(crt *cmv1.Certificate) { issuance.SetIssuing(crt, start.Why, t.now) })
	t.tellWarning(trigger, start.Warning)
	t.opens(trigger, issuance.Finding{Reason: issuance.EventIssuing, Message: start.Why.Message})
	return false, nil
}
