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
	// Request is what will be stored: with the stored spec, whatever the one in
	// the object that was sent.
	Request request.Request
	// Old are the conditions that are stored, New those that were sent.
	Old, New []quorum.Condition
	User     quorum.Voter
	// Decides reports whether requests can be approved by this write. Others
	// cannot add approvals, and leave the server's own conditions as they are.
	Decides bool
	// Issued is the certificate that will be stored, OldIssued the one that is.
	Issued, OldIssued []byte
	// DryRun: nothing is stored.
	DryRun bool
	// Call is the API call; nil if Mutate and Validate are calls of their own, as those of
	// webhooks are.
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

// OfCSR returns the write of a CertificateSigningRequest through a subresource.
// What it asks for is taken from the stored object, and the metadata from the
// one that was sent, which the subresources store.
func OfCSR(sent, stored *certificatesv1.CertificateSigningRequest, subresource string) Approval {
	outline := *stored
	outline.Labels, outline.Annotations = sent.Labels, sent.Annotations
	return Of(sent, &outline, subresource)
}

// RequestsResource is the resource of CertificateRequests.
var RequestsResource = requestkind.CertificateRequests.Resource

// Mutate returns the conditions to be stored in place of those that were sent;
// nil if these stay. An approval that needs more people becomes a vote.
func (c *Checks) Mutate(ctx context.Context, a Approval) ([]quorum.Condition, Answer) {
	decides := c.begin(a)
	w, answer := c.write(ctx, a, decides)
	if w == nil || answer.Refusal != nil {
		return nil, answer
	}
	if !a.Decides {
		return present(quorum.Restore(a.Old, a.New)), Answer{}
	}
	if w.Approves() {
		if err := a.MayApprove(ctx); err != nil {
			return nil, Answer{Refusal: forbidden(a.Resource, a.Request.Name, err.Error())}
		}
	}
	m, err := w.Mutate()
	if err != nil {
		return nil, Answer{Refusal: unavailable(err)}
	}
	answer = Answer{Warnings: m.Warnings, Refusal: a.refused(m.Refusal)}
	if w.Approves() {
		answer.Audit = audit(m.Decision)
		if !a.DryRun {
			decides.record(m)
		}
	}
	if m.Recorded != nil {
		answer.Audit["vote"] = quorum.VoteType(m.Recorded.N)
		if o := m.Recorded.Override; o != nil {
			answer.Audit["override"] = strings.Join(o.Policies, ",")
		}
	}
	if m.Refusal != nil {
		return nil, answer
	}
	return present(m.Conditions), answer
}

// present returns conditions that are not nil: that there are none may be what
// has changed.
func present(conditions []quorum.Condition) []quorum.Condition {
	return append([]quorum.Condition{}, conditions...)
}

// Validate refuses what others may have changed after Mutate: votes that are not
// the user's, and approvals without the people that policies require. It refuses
// certificates that policies forbid. An approval that it lets through is counted in
// the quotas of policies.
func (c *Checks) Validate(ctx context.Context, a Approval) Answer {
	answer := c.validate(ctx, a)
	if answer.Refusal != nil {
		return answer
	}
	return c.Issued(ctx, a)
}

func (c *Checks) validate(ctx context.Context, a Approval) Answer {
	decides := c.resume(a)
	w, answer := c.write(ctx, a, decides)
	if w == nil || answer.Refusal != nil {
		return answer
	}
	if a.addsVote() {
		if err := a.MayApprove(ctx); err != nil {
			return Answer{Refusal: forbidden(a.Resource, a.Request.Name, err.Error())}
		}
	}
	if refusal := w.Validate(); refusal != nil || !w.Approves() || a.DryRun {
		return Answer{Refusal: a.refused(refusal)}
	}
	refusal, err := decides.count(ctx)
	if err != nil {
		return Answer{Refusal: unavailable(err)}
	}
	return Answer{Refusal: a.refused(refusal)}
}

// write returns the decision about a write; nil if no policy concerns it. While
// the policies are not known, nothing can be approved.
func (c *Checks) write(ctx context.Context, a Approval, decides *decider) (*quorum.Write, Answer) {
	governed, err := c.policies.Governs(&a.Request)
	w := &quorum.Write{
		Request: a.Request, Old: a.Old, New: a.New, User: a.User, Now: c.policies.Now(),
		Open: c.policies.Seals().Open, Seal: c.policies.Seals().Seal, Decide: decides.with(ctx),
		MayOverride: func(policy string) (bool, error) { return c.mayOverride(ctx, a.User, policy) },
	}
	switch {
	case err != nil && a.Decides && w.Approves():
		return nil, Answer{Refusal: unavailable(err)}
	case a.Decides && w.Approves():
		w.Order = c.policies.OrderTerms(ctx, a.Request, a.User)
	}
	switch {
	case governed:
		w.All = c.policies.People()
	case w.Order == nil && !hasOwn(a.Old) && !hasOwn(a.New):
		return nil, Answer{}
	}
	return w, Answer{}
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
