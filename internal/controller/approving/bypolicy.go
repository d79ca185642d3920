package approving

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
)

// byPolicy approves and denies CertificateSigningRequests according to the certificate
// policies.
type byPolicy struct{ approver }

// AddByPolicy adds the approver by policies to mgr, whose cache it reads. Its account needs
// update on certificatesigningrequests/approval, and approve on the signers in the
// policies.
func AddByPolicy(mgr ctrl.Manager, cfg Config) error {
	b := &byPolicy{approver{
		Config: cfg.withDefaults(), kind: requestkind.SigningRequests, cache: issueoncreate.Reader(mgr.GetCache()), actor: true,
		conflictPause: worker.ConflictPause, cannotWake: mayDecide,
	}}
	b.rules = rules{takes: func(o client.Object) bool { return requestkind.Undecided(o) }, left: b.left, failed: b.failed}
	if err := cfg.OnCreate.AddTo(mgr, issueoncreate.Step{
		Resource: b.kind.Resource, Role: issueoncreate.Approve, Takes: b.takesNew, Reconciler: b,
	}); err != nil {
		return err
	}
	const concurrency = 5
	if err := b.addTo(mgr, "policyapprove", changes(b.concerns), b.concerns, concurrency); err != nil {
		return fmt.Errorf("building the approver by policies: %w", err)
	}
	return nil
}

// concerns reports whether a request waits, and policies can be about it.
func (b *byPolicy) concerns(o client.Object) bool {
	return requestkind.Undecided(o) && b.Policies.Concern(b.kind.Name, b.kind.Signer(o))
}

// takesNew reports whether a request may be approved in the call that creates it.
func (b *byPolicy) takesNew(o client.Object) bool {
	return requestkind.Undecided(o) && b.Policies.MayIssueOnCreate(b.kind.Name, b.kind.Signer(o))
}

// left reports after a while that no policy matches a request.
func (b *byPolicy) left(_ context.Context, p *pass, outcome policies.Outcome) (reconcile.Result, error) {
	if outcome.Reason == policies.EventNone && !outcome.Early {
		b.report(p, corev1.EventTypeNormal, outcome.Reason, outcome.Message)
	}
	return reconcile.Result{RequeueAfter: outcome.After}, nil
}

func (b *byPolicy) failed(_ context.Context, _ *pass, err error) (reconcile.Result, error) {
	return reconcile.Result{}, fmt.Errorf("writing what the certificate policies have decided: %w", err)
}
