package policies

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// countedRequests is how many requests the process remembers as counted.
const countedRequests = 10_000

// maxSamples is how many differences a policy's status has.
const maxSamples = 10

// counts counts the decisions of each policy since the start of the process: each
// request once for each outcome.
type counts struct {
	clock clock.PassiveClock
	seen  *lru.Cache

	mu sync.Mutex // guards all below
	of map[string]*policyCounts
}

// policyCounts are the counts of one policy.
type policyCounts struct {
	generation int64
	decisions  v1alpha1.PolicyDecisionCounts
	shadow     v1alpha1.PolicyShadowStatus
}

func newCounts(clock clock.PassiveClock) *counts {
	return &counts{clock: clock, seen: lru.New(countedRequests), of: map[string]*policyCounts{}}
}

// add counts a decision.
func (c *counts) add(d *Decision) {
	key := d.Request.UID + " " + string(d.Outcome) + " " + d.PolicyDecision.Set
	if _, seen := c.seen.Get(key); seen || d.Request.UID == "" {
		return
	}
	c.seen.Add(key, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := metav1.NewTime(c.clock.Now()).Rfc3339Copy()
	if d.PolicyDecision.Policy != nil && d.PolicyDecision.Policy.Generation > 0 {
		counted := &c.policy(d.PolicyDecision.Policy.Name, d.PolicyDecision.Policy.Generation).decisions
		counted.LastTime = &now
		switch d.Outcome {
		case v1alpha1.OutcomeApprove:
			counted.Approved++
		case v1alpha1.OutcomeDeny:
			counted.Denied++
		case v1alpha1.OutcomeLeave:
			counted.Left++
		default:
			counted.Waiting++
		}
	}
	for _, shadow := range d.Shadow {
		c.shadow(d, shadow, now)
	}
}

func (c *counts) policy(name string, generation int64) *policyCounts {
	counted := c.of[name]
	if counted == nil || counted.generation != generation {
		counted = &policyCounts{generation: generation}
		c.of[name] = counted
	}
	return counted
}

func (c *counts) shadow(d *Decision, s v1alpha1.ShadowDecision, now metav1.Time) {
	p := d.Set.Policy(s.Policy)
	if p == nil {
		return
	}
	status := &c.policy(s.Policy, p.Generation()).shadow
	if status.Since == nil {
		status.Since = &now
	}
	if status.Evaluated++; !s.Differs {
		return
	}
	status.Differences++
	sample := v1alpha1.PolicyShadowSample{
		Request: strings.TrimPrefix(string(d.Request.Kind)+" "+request.FullName(d.Request.Namespace, d.Request.Name), " "),
		Was:     d.Outcome, Would: s.Outcome,
	}
	for _, v := range s.Violations[:min(3, len(s.Violations))] {
		sample.Violations = append(sample.Violations, v.At)
	}
	if status.Samples = append(status.Samples, sample); len(status.Samples) > maxSamples {
		status.Samples = slices.Delete(status.Samples, 0, 1)
	}
}

// Counts returns how often a generation of a policy has taken part in decisions of this
// process, and the changes that it would have made; nil if never.
func (r *Recorder) Counts(name string, generation int64) (*v1alpha1.PolicyDecisionCounts, *v1alpha1.PolicyShadowStatus) {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	counted := r.counts.of[name]
	if counted == nil || counted.generation != generation {
		return nil, nil
	}
	var decisions *v1alpha1.PolicyDecisionCounts
	if counted.decisions.LastTime != nil {
		decisions = counted.decisions.DeepCopy()
	}
	if counted.shadow.Since == nil {
		return decisions, nil
	}
	return decisions, counted.shadow.DeepCopy()
}
