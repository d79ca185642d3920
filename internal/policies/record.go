package policies

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies/journal"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// remembered is about how many requests said remembers.
const remembered = 10_000

// said remembers the last text about each request, so that a loop that decides again
// reports it once. It is safe for concurrent use.
type said struct {
	mu   sync.Mutex // guards last
	last *lru.Cache
}

type saying struct {
	what string
	n    int
}

func newSaid() *said { return &said{last: lru.New(remembered)} }

// news reports whether the text about a subject has changed, and how often.
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

// decisions remembers the policies that approve or deny requests until the decisions
// are written. It is safe for concurrent use.
type decisions struct{ *lru.Cache }

// beingWritten is the maximum number of decisions that are written at once.
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

// Recorder counts and logs decisions, votes and overrides. It is safe for concurrent use.
type Recorder struct {
	metrics *metrics
	counts  *counts
	journal *journal.Journal
	// builtIn are the names of the built-in signers that sign here.
	builtIn []string
	// recorded are the decisions that are recorded.
	recorded *said
	// decided are decisions of approvers that are being written.
	decided decisions
}

func newRecorder(cfg Config) (*Recorder, error) {
	r := &Recorder{counts: newCounts(cfg.Clock), builtIn: cfg.BuiltIn, recorded: newSaid(), decided: decisions{lru.New(beingWritten)}}
	var err error
	if r.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, err
	}
	r.journal, err = journal.Open(journal.Config{Settings: cfg.Settings.DecisionLog, Metrics: cfg.Metrics})
	return r, err
}

// Recorder returns the recorder of the decisions of this process; nil without Policies.
func (p *Policies) Recorder() *Recorder {
	if p == nil {
		return nil
	}
	return p.recorder
}

// DecidedBy returns the policy that approves or denies a request in this process now; nil if
// none does, or without a Recorder.
func (r *Recorder) DecidedBy(request types.UID) *v1alpha1.DecidingPolicy {
	if r == nil {
		return nil
	}
	if policy, ok := r.decided.Get(string(request)); ok {
		return new(policy.(v1alpha1.DecidingPolicy))
	}
	return nil
}

// Record counts and logs a decision that has an effect. It skips a decision that equals
// the last one about the request at the stage.
func (r *Recorder) Record(d *Decision) {
	uid, what := d.PolicyDecision.Request.UID, fmt.Sprintf("%s %s %s %d %t",
		d.Outcome, d.Reason, d.PolicyDecision.Set, len(d.Input.Votes), d.Input.Certificate != nil)
	if owner := d.Input.Facts.Owner.Value; d.Stage == v1alpha1.StageOwner && owner != nil { // the request does not exist
		uid, what = string(owner.UID), what+" "+d.PolicyDecision.Request.Digest
	}
	r.decided.note(uid, d)
	subject := uid + "/" + string(d.Stage)
	n, news := 1, true
	if uid != "" {
		n, news = r.recorded.news(subject, what)
	}
	if !news {
		return
	}
	d.ID = fmt.Sprintf("%s/%d", subject, n)
	r.metrics.decided(d.PolicyDecision, r.signerLabel(d))
	r.journal.Add(d.PolicyDecision, &d.Input)
}

// signerLabel returns the name of a signer if policies name it or it is of this
// program, and otherSigner for others.
func (r *Recorder) signerLabel(d *Decision) string {
	name := d.PolicyDecision.Request.Signer
	declared := d.Input.Request.Issuer == nil && d.Input.Facts.Signer.Value != nil && d.Input.Facts.Signer.Value.Ours
	if declared || d.Set.Names(name) || slices.Contains(r.builtIn, name) {
		return name
	}
	return otherSigner
}

// The label result of the metric of votes.
const (
	// VoteRecorded: more people have to approve.
	VoteRecorded = "recorded"
	// VoteComplete: enough people have approved.
	VoteComplete = "complete"
	// VoteRefused: the person's approval does not count.
	VoteRefused = "refused"
)

// CountOverride counts the policies that an approval overrides. o may be nil.
func (r *Recorder) CountOverride(o *quorum.Override) {
	if o == nil {
		return
	}
	for _, policy := range o.Policies {
		r.metrics.overrides.WithLabelValues(policy).Inc()
	}
}

// CountVote counts an approval by a person for the policies of a decision that
// require people.
func (r *Recorder) CountVote(d *v1alpha1.PolicyDecision, result string) {
	if d.People == nil {
		return
	}
	for _, req := range d.People.Requirements {
		r.metrics.votes.WithLabelValues(req.Policy, result).Inc()
	}
}
