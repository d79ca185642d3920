package issue

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// restoreRevision restores the revision that a restored Certificate has lost.
func (t *pass) restoreRevision(ctx context.Context) (changed bool, err error) {
	revision := issuance.RestoredRevision(t.Certificate, t.requests)
	if revision == nil {
		return false, nil
	}
	return t.setStatus(ctx, issuing, func(crt *cmv1.Certificate) { crt.Status.Revision = revision })
}

// tellReadiness writes the Ready condition, which says whether the present
// certificate is suitable. The next steps do not depend on it.
func (t *pass) tellReadiness(ctx context.Context) (changed bool, err error) {
	ready := issuance.Ready(t.Situation, t.now)
	t.requeueBy(ready.Again)
	_, err = t.setStatus(ctx, readiness, func(crt *cmv1.Certificate) { issuance.SetReadiness(crt, ready, t.now) })
	return false, err
}

// adopt ends an issuance that is no longer needed.
func (t *pass) adopt(ctx context.Context) (changed bool, err error) {
	why := issuance.Adopt(t.Situation, t.now)
	if why.None() {
		return false, nil
	}
	if changed, err = t.setStatus(ctx, trigger, issuance.SetAbandoned); changed {
		t.eventNormal(trigger, t.Certificate, why)
	}
	return changed, err
}

// release ends an issuance whose Secret belongs to another Certificate.
func (t *pass) release(ctx context.Context) (changed bool, err error) {
	why := issuance.Yield(t.Situation)
	if why.None() {
		return false, nil
	}
	if changed, err = t.setStatus(ctx, trigger, issuance.SetAbandoned); changed {
		t.eventWarning(trigger, t.Certificate, why)
	}
	return changed, err
}

// start starts an issuance if one is due.
func (t *pass) start(ctx context.Context) (changed bool, err error) {
	start := t.Settings.backoff().Decide(t.Situation, t.now)
	t.requeueBy(start.Again)
	if start.Held != "" {
		log.FromContext(ctx).V(1).Info("Not issuing yet", "why", start.Held)
	}
	if start.Why.None() {
		return false, nil
	}
	changed, err = t.setStatus(ctx, trigger, func(crt *cmv1.Certificate) { issuance.SetIssuing(crt, start.Why, t.now) })
	if changed {
		t.eventWarning(trigger, t.Certificate, start.Warning)
		t.eventNormal(trigger, t.Certificate, issuance.Finding{Reason: issuance.EventIssuing, Message: start.Why.Message})
	}
	return false, err
}
