package policies

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Decision is a decision with its input.
type Decision struct {
	*v1alpha1.PolicyDecision
	// Requirements are the people that the policies require.
	Requirements []quorum.Requirement
	// Set are the policies that made the decision, Input is their input.
	Set   *certpolicy.Set
	Input certpolicy.Input
	// requestPolicies is the decision of the CertificateRequestPolicies; nil if they do not
	// apply.
	requestPolicies *crp.Decision
	// needs are the facts that were looked up.
	needs certpolicy.Needs
	// carried are approvals of an earlier order of an ACME client that may count.
	carried []quorum.Vote
	// opinions are the opinions of the policies, which do not depend on approvals.
	opinions *certpolicy.Opinions
	// by is the version of source that was in force at the decision.
	by     *inForce
	source *source
}

// InForce reports whether the policies that made the decision are in force now.
func (d *Decision) InForce() bool { return d.by == d.source.current.Load() }

// IsForCertificate reports whether a request is for a Certificate, or may be as far as
// is known.
func (p *Policies) IsForCertificate(ctx context.Context, r *request.Request) bool {
	origin, _ := p.facts.ofCertificate(ctx, r)
	return !origin.Known || *origin.Value == v1alpha1.OriginCertificate
}

// Concern reports whether a policy in any mode can apply to requests of a kind for a
// signer. It is true while the policies are not known.
func (p *Policies) Concern(kind v1alpha1.RequestKind, signerName string) bool {
	if p == nil {
		return false
	}
	current := p.source.current.Load()
	return current == nil || current.requestPolicies.concern(kind) || current.set.Concerns(kind, signerName)
}

// Decide decides about a request with the facts of the API. The caller sets in in the
// stage, the request, the votes, the certificate if there is one, and the origin with
// the owner if the API does not have it yet. Decide returns nil if no policy can apply
// to the request. The error names the fact that is not known yet.
func (p *Policies) Decide(ctx context.Context, in certpolicy.Input) (*Decision, error) {
	current := p.source.current.Load()
	if current == nil {
		return nil, ErrUnknown
	}
	began := p.clock.Now()
	set, requestPolicies := current.set, p.facts.Ask(ctx, &in.Request, current.requestPolicies)
	if requestPolicies == nil && !set.Concerns(in.Request.Kind, certpolicy.SignerName(in.Request)) {
		return nil, nil
	}
	needs := set.Needs(&in.Request)
	in.Facts = p.facts.complete(ctx, &in.Request, in.Facts, needs)
	if (needs.Keys || needs.Earlier) && !p.keys.find(ctx, &in, needs) && set.AwaitsRequests(&in.Request) {
		return nil, errRequestsUnknown
	}
	in.Facts.RequestPolicies = RequestPoliciesFact(requestPolicies)
	var err error
	if in.Facts.Quotas, err = p.quotas.look(ctx, set.Quotas(&in.Request), in.Request.UID); err != nil && in.Stage != v1alpha1.StageCreate {
		return nil, err
	}
	if in.Time.IsZero() {
		in.Time = began
	}
	in.Time = in.Time.Truncate(time.Second) // as the log has it: the decision can be made again
	in.Patience = p.settings.Patience.Duration
	if in.Stage == v1alpha1.StageAnswer && in.Request.Kind == v1alpha1.PodCertificateRequests {
		in.Patience = 0 // admission does not look for pods: what is about them stays open
	}
	var carried []quorum.Vote
	if needs.Carried && in.Stage != v1alpha1.StageCreate {
		carried = p.facts.carried(ctx, &in.Request, p.seals.Open)
		in.Votes = append(slices.Clip(in.Votes), carried...)
	}
	d := &Decision{by: current, source: p.source, carried: carried, Set: set, Input: in, requestPolicies: requestPolicies, needs: needs, opinions: p.opinions.of(set, in)}
	d.decide()
	took := p.clock.Since(began)
	d.Micros = took.Microseconds()
	p.recorder.metrics.took(in.Stage, took)
	return d, nil
}

func (d *Decision) decide() {
	d.PolicyDecision, d.Requirements = d.opinions.Decide(d.Input.Stage, d.Input.Time, d.Input.Votes)
}

// Again decides again, with other votes.
func (d *Decision) Again(votes []quorum.Vote) *Decision {
	other := *d
	other.Input.Votes = append(slices.Clip(votes), d.carried...)
	other.decide()
	return &other
}

// About decides again, about a certificate.
func (d *Decision) About(cert *x509.Certificate) *Decision {
	in := d.Input
	in.Certificate = cert
	return d.with(in, d.opinions.About(in))
}

// of decides about in by the policies of d.
func (d *Decision) of(in certpolicy.Input) *Decision { return d.with(in, d.Set.Opinions(in)) }

func (d *Decision) with(in certpolicy.Input, opinions *certpolicy.Opinions) *Decision {
	other := *d
	other.Input, other.opinions = in, opinions
	other.decide()
	return &other
}

// keptOpinions keeps the opinions of policies about requests: creation, approval and
// signature ask for the same. It is safe for concurrent use.
type keptOpinions struct{ byUID *lru.Cache }

// maxKeptOpinions is about how many requests are between creation and signature at a time.
const maxKeptOpinions = 1024

func newKeptOpinions() keptOpinions { return keptOpinions{lru.New(maxKeptOpinions)} }

// of returns the opinions of the policies of a set about in.
func (k keptOpinions) of(set *certpolicy.Set, in certpolicy.Input) *certpolicy.Opinions {
	if kept, found := k.byUID.Get(in.Request.UID); found && kept.(*certpolicy.Opinions).Answers(set, &in) {
		return kept.(*certpolicy.Opinions)
	}
	opinions := set.Opinions(in)
	if in.Request.UID != "" {
		k.byUID.Add(in.Request.UID, opinions)
	}
	return opinions
}
