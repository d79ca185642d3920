package certpolicy

import (
	"context"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Approval is a write of the conditions of a request.
type Approval struct {
	Resource schema.GroupResource
	// Request is the request that will be stored: with the stored spec, even if another
	// was sent.
	Request request.Request
	// Old are the stored conditions, New the conditions that were sent.
	Old, New []quorum.Condition
	User     quorum.Voter
	// Decides reports whether requests can be approved by this write. Others
	// cannot add approvals, and leave the server's own conditions as they are.
	Decides bool
	// Issued is the certificate that will be stored, OldIssued the stored one.
	Issued, OldIssued []byte
	// DryRun: nothing is stored.
	DryRun bool
	// Call is the API call; nil if Mutate and Validate are separate calls, as for
	// webhooks.
	Call *Call
	// MayApprove returns an error unless the user may approve for the signer.
	MayApprove func(context.Context) error
}

// Of returns the write of a request through a subresource.
func Of(sent, stored requestkind.Object, subresource string) Approval {
	k := requestkind.Of(stored)
	a := Approval{Resource: k.Resource, Request: k.View(stored), Issued: k.Certificate(sent), OldIssued: k.Certificate(stored)}
	if k.Decision != nil {
		a.Decides, a.Old, a.New = subresource == k.Decision.Subresource, k.Conditions(stored), k.Conditions(sent)
	}
	return a
}

// OfCSR returns the write of a CertificateSigningRequest through a subresource. The
// spec is taken from the stored object. The metadata are taken from the one that was
// sent, because the subresources store them.
func OfCSR(sent, stored *certificatesv1.CertificateSigningRequest, subresource string) Approval {
	outline := *stored
	outline.Labels, outline.Annotations = sent.Labels, sent.Annotations
	return Of(sent, &outline, subresource)
}

// RequestsResource is the resource of CertificateRequests.
var RequestsResource = requestkind.CertificateRequests.Resource

// Mutate returns the conditions to store instead of the ones that were sent; nil if
// these stay. An approval that needs more people becomes a vote.
func (c *Checks) Mutate(ctx context.Context, a Approval) ([]quorum.Condition, Outcome) {
	decides := c.begin(a)
	w, outcome := c.write(ctx, a, decides)
	if w == nil || outcome.Refusal != nil {
		return nil, outcome
	}
	if !a.Decides {
		return present(quorum.Restore(a.Old, a.New)), Outcome{}
	}
	if w.Approves() {
		if err := a.MayApprove(ctx); err != nil {
			return nil, Outcome{Refusal: forbidden(a.Resource, a.Request.Name, err.Error())}
		}
	}
	m, err := w.Mutate()
	if err != nil {
		return nil, Outcome{Refusal: unavailable(err)}
	}
	outcome = Outcome{Warnings: m.Warnings, Refusal: a.refused(m.Refusal)}
	if w.Approves() {
		outcome.Audit = audit(m.Decision)
		if !a.DryRun {
			decides.record(m)
		}
	}
	if m.Recorded != nil {
		outcome.Audit["vote"] = quorum.VoteType(m.Recorded.N)
		if o := m.Recorded.Override; o != nil {
			outcome.Audit["override"] = strings.Join(o.Policies, ",")
		}
	}
	if m.Refusal != nil {
		return nil, outcome
	}
	return present(m.Conditions), outcome
}

// present returns conditions that are not nil: the change may be that there are none.
func present(conditions []quorum.Condition) []quorum.Condition {
	return append([]quorum.Condition{}, conditions...)
}

// Validate refuses changes that other plugins may have made after Mutate: votes that
// are not the user's, and approvals without the people that policies require. It
// refuses certificates that policies forbid. An approval that it lets through is
// counted in the quotas of policies.
func (c *Checks) Validate(ctx context.Context, a Approval) Outcome {
	outcome := c.validate(ctx, a)
	if outcome.Refusal != nil {
		return outcome
	}
	return c.Issued(ctx, a)
}

func (c *Checks) validate(ctx context.Context, a Approval) Outcome {
	decides := c.resume(a)
	w, outcome := c.write(ctx, a, decides)
	if w == nil || outcome.Refusal != nil {
		return outcome
	}
	if a.addsVote() {
		if err := a.MayApprove(ctx); err != nil {
			return Outcome{Refusal: forbidden(a.Resource, a.Request.Name, err.Error())}
		}
	}
	if refusal := w.Validate(); refusal != nil || !w.Approves() {
		return Outcome{Refusal: a.refused(refusal)}
	}
	return a.count(ctx, decides)
}

// Settle is Validate for a write that nothing has changed since Mutate, in the same call.
func (c *Checks) Settle(ctx context.Context, a Approval) Outcome {
	if (&quorum.Write{Old: a.Old, New: a.New}).Approves() {
		if outcome := a.count(ctx, a.Call.decided); outcome.Refusal != nil {
			return outcome
		}
	}
	return c.Issued(ctx, a)
}

// count counts an approval in the quotas of policies.
func (a Approval) count(ctx context.Context, decides *decider) Outcome {
	if a.DryRun {
		return Outcome{}
	}
	refusal, err := decides.count(ctx)
	if err != nil {
		return Outcome{Refusal: unavailable(err)}
	}
	return Outcome{Refusal: a.refused(refusal)}
}

// write returns the decision about a write; nil if no policy concerns it. While
// the policies are not known, nothing can be approved.
func (c *Checks) write(ctx context.Context, a Approval, decides *decider) (*quorum.Write, Outcome) {
	governed, err := c.policies.Governs(&a.Request)
	w := &quorum.Write{
		Request: a.Request, Old: a.Old, New: a.New, User: a.User, Now: c.policies.Now(),
		Open: c.policies.Seals().Open, Seal: c.policies.Seals().Seal, Decide: decides.with(ctx),
		MayOverride: func(policy string) (bool, error) { return c.mayOverride(ctx, a.User, policy) },
	}
	switch {
	case err != nil && a.Decides && w.Approves():
		return nil, Outcome{Refusal: unavailable(err)}
	case a.Decides && w.Approves():
		w.Order = c.policies.Orders().Terms(ctx, a.Request, a.User)
	}
	switch {
	case governed:
		w.All = c.policies.People()
	case w.Order == nil && !hasOwn(a.Old) && !hasOwn(a.New):
		return nil, Outcome{}
	}
	return w, Outcome{}
}

// addsVote reports whether the write has a vote that is not stored.
func (a Approval) addsVote() bool {
	stored := map[quorum.Condition]bool{}
	for _, c := range a.Old {
		stored[c] = true
	}
	for _, c := range a.New {
		if quorum.IsVote(c.Type) && !stored[c] {
			return true
		}
	}
	return false
}

func hasOwn(conditions []quorum.Condition) bool {
	for _, c := range conditions {
		if strings.HasPrefix(c.Type, quorum.ConditionPrefix) {
			return true
		}
	}
	return false
}

// refused returns the refusal 403 for r, nil if there is none.
func (a Approval) refused(r *quorum.Refusal) *apierrors.StatusError {
	if r == nil {
		return nil
	}
	return forbidden(a.Resource, a.Request.Name, r.Message, metav1.StatusCause{
		Type: metav1.CauseType(r.Reason), Field: "status.conditions", Message: r.Message,
	})
}
