package policies

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Decision is a decision, and what it depends on.
type Decision struct {
	*v1alpha1.PolicyDecision
	// Requirements are what the policies require of people.
	Requirements []quorum.Requirement
	// Set are the policies that the decision is by, Input is what it is about.
	Set   *certpolicy.Set
	Input certpolicy.Input
	// ruling is what CertificateRequestPolicies say; nil if nothing.
	ruling *Ruling
	// needs are the facts that were looked up.
	needs certpolicy.Needs
	// carried are approvals of an earlier order of an ACME client, which may count.
	carried []quorum.Vote
	// judgement is what the policies say, whoever has approved.
	judgement *certpolicy.Judgement
	// by is what was in force then, of source.
	by     *inForce
	source *source
}

// InForce reports whether the policies that the decision is by are in force now.
func (d *Decision) InForce() bool { return d.by == d.source.current.Load() }

// IsForCertificate reports whether a request is for a Certificate, also if that is
// not known yet.
func (p *Policies) IsForCertificate(ctx context.Context, r *request.Request) bool {
	origin, _ := p.facts.ofCertificate(ctx, r)
	return !origin.Known || *origin.Value == v1alpha1.OriginCertificate
}

// Concern reports whether a policy in any mode can be about requests of a kind
// for a signer. As long as the policies are not known, one can.
func (p *Policies) Concern(kind v1alpha1.RequestKind, signerName string) bool {
	if p == nil {
		return false
	}
	current := p.source.current.Load()
	return current == nil || current.requestPolicies.concern(kind) || current.set.Concerns(kind, signerName)
}

// Decide decides about a request with the facts of the API. Of in, the caller
// sets the stage, the request, the votes, the certificate if there is one, and the
// origin with the owner if the API does not have it yet. It returns nil if no policy
// can be about the request. The error says what is not known yet.
func (p *Policies) Decide(ctx context.Context, in certpolicy.Input) (*Decision, error) {
	current := p.source.current.Load()
	if current == nil {
		return nil, ErrUnknown
	}
	began := p.clock.Now()
	set, ruling := current.set, p.facts.Ask(ctx, &in.Request, current.requestPolicies)
	if ruling == nil && !set.Concerns(in.Request.Kind, certpolicy.SignerName(in.Request)) {
		return nil, nil
	}
	needs := set.Needs(&in.Request)
	in.Facts = p.facts.complete(ctx, &in.Request, in.Facts, needs)
	if (needs.Keys || needs.Earlier) && !p.keys.find(ctx, &in, needs) && set.AwaitsRequests(&in.Request) {
		return nil, errRequestsUnknown
	}
	in.Facts.RequestPolicies = ruling.Fact()
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
		carried = p.carried(ctx, &in.Request)
		in.Votes = append(slices.Clip(in.Votes), carried...)
	}
	d := &Decision{by: current, source: p.source, carried: carried, Set: set, Input: in, ruling: ruling, needs: needs, judgement: p.judged.of(set, in)}
	d.decide()
	took := p.clock.Since(began)
	d.Micros = took.Microseconds()
	p.metrics.took(in.Stage, took)
	return d, nil
}

func (d *Decision) decide() {
	d.PolicyDecision, d.Requirements = d.judgement.Decide(d.Input.Stage, d.Input.Time, d.Input.Votes)
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
	return d.with(in, d.judgement.About(in))
}

// of decides about in by the policies of d.
func (d *Decision) of(in certpolicy.Input) *Decision { return d.with(in, d.Set.Judge(in)) }

func (d *Decision) with(in certpolicy.Input, judgement *certpolicy.Judgement) *Decision {
	other := *d
	other.Input, other.judgement = in, judgement
	other.decide()
	return &other
}

// judged keeps what policies have said about requests: creation, approval and
// signature ask the same. It is safe for concurrent use.
type judged struct{ byUID *lru.Cache }

// keptJudgements is about how many requests are between creation and signature
// at a time.
const keptJudgements = 1024

func newJudged() judged { return judged{lru.New(keptJudgements)} }

// of returns what the policies of a set say about in.
func (j judged) of(set *certpolicy.Set, in certpolicy.Input) *certpolicy.Judgement {
	if kept, found := j.byUID.Get(in.Request.UID); found && kept.(*certpolicy.Judgement).Answers(set, &in) {
		return kept.(*certpolicy.Judgement)
	}
	judgement := set.Judge(in)
	if in.Request.UID != "" {
		j.byUID.Add(in.Request.UID, judgement)
	}
	return judgement
}
