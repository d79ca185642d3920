package policies

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// remembered is about how many requests it is known what was last said of them.
const remembered = 10_000

// said remembers what was last said of requests, so that a loop that decides
// again says it once. It is safe for concurrent use.
type said struct {
	mu   sync.Mutex // guards last
	last *lru.Cache
}

type saying struct {
	what string
	n    int
}

func newSaid() *said { return &said{last: lru.New(remembered)} }

// news reports whether something else was last said of a subject, and how often
// that has changed.
func (s *said) news(subject, what string) (n int, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, _ := s.last.Get(subject)
	before, _ := last.(saying)
	if before.n > 0 && before.what == what {
		return before.n, false
	}
	s.last.Add(subject, saying{what, before.n + 1})
	return before.n + 1, true
}

// decisions remembers by which policies the last requests are approved or denied, until that is
// written. It is safe for concurrent use.
type decisions struct{ *lru.Cache }

// beingWritten is how many decisions are written at once.
const beingWritten = 1000

// note notes a decision of an approver.
func (n decisions) note(uid string, d *Decision) {
	switch {
	case uid == "" || d.Stage != v1alpha1.StageApprover:
	case d.Policy == nil || d.Outcome != v1alpha1.OutcomeApprove && d.Outcome != v1alpha1.OutcomeDeny:
		n.Remove(uid)
	default:
		n.Add(uid, *d.Policy)
	}
}

// DecidedBy returns the policy by which this process approves or denies a request at present,
// nil if none does.
func (p *Policies) DecidedBy(request types.UID) *v1alpha1.DecidingPolicy {
	if p == nil {
		return nil
	}
	if policy, ok := p.decided.Get(string(request)); ok {
		return new(policy.(v1alpha1.DecidingPolicy))
	}
	return nil
}

// Record counts and logs a decision that has an effect. One that is the same as
// the last one about the request at the stage is not recorded again.
func (p *Policies) Record(d *Decision) {
	uid, what := d.PolicyDecision.Request.UID, fmt.Sprintf("%s %s %s %d %t",
		d.Outcome, d.Reason, d.PolicyDecision.Set, len(d.Input.Votes), d.Input.Certificate != nil)
	if owner := d.Input.Facts.Owner.Value; d.Stage == v1alpha1.StageOwner && owner != nil { // the request does not exist
		uid, what = string(owner.UID), what+" "+d.PolicyDecision.Request.Digest
	}
	p.decided.note(uid, d)
	subject := uid + "/" + string(d.Stage)
	n, news := 1, true
	if uid != "" {
		n, news = p.recorded.news(subject, what)
	}
	if !news {
		return
	}
	d.ID = fmt.Sprintf("%s/%d", subject, n)
	p.metrics.decided(d.PolicyDecision, p.signerLabel(d))
	p.journal.Add(d.PolicyDecision, &d.Input)
}

// signerLabel returns the name of a signer that policies name, or that this
// program has.
func (p *Policies) signerLabel(d *Decision) string {
	name := d.PolicyDecision.Request.Signer
	declared := d.Input.Request.Issuer == nil && d.Input.Facts.Signer.Value != nil && d.Input.Facts.Signer.Value.Ours
	if declared || d.Set.Names(name) || slices.Contains(p.facts.BuiltIn, name) {
		return name
	}
	return otherSigner
}

// VoteResult is what became of an approval by a person.
type VoteResult string

// The results.
const (
	// VoteRecorded: more people have to approve.
	VoteRecorded VoteResult = "recorded"
	// VoteComplete: enough people have approved.
	VoteComplete VoteResult = "complete"
	// VoteRefused: the person's approval does not count.
	VoteRefused VoteResult = "refused"
)

// CountOverride counts the policies that an approval overrides; o may be nil.
func (p *Policies) CountOverride(o *quorum.Override) {
	if o == nil {
		return
	}
	for _, policy := range o.Policies {
		p.metrics.overrides.WithLabelValues(policy).Inc()
	}
}

// CountVote counts an approval by a person for the policies of a decision that
// require people.
func (p *Policies) CountVote(d *v1alpha1.PolicyDecision, result VoteResult) {
	if d.People == nil {
		return
	}
	for _, r := range d.People.Requirements {
		p.metrics.votes.WithLabelValues(r.Policy, string(result)).Inc()
	}
}
