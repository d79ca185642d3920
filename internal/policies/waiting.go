package policies

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// waiting counts the requests that wait for people, by the policies that require
// them. It is safe for concurrent use.
type waiting struct {
	gauge *prometheus.GaugeVec

	mu sync.Mutex // guards of
	of map[requestKey][]string
}

type requestKey struct {
	kind v1alpha1.RequestKind
	types.NamespacedName
}

func newWaiting(gauge *prometheus.GaugeVec) *waiting {
	return &waiting{gauge: gauge, of: map[requestKey][]string{}}
}

// set says which policies a request waits for; none if it does not wait.
func (w *waiting) set(key requestKey, policies []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.of[key] {
		w.gauge.WithLabelValues(name).Dec()
	}
	for _, name := range policies {
		w.gauge.WithLabelValues(name).Inc()
	}
	if len(policies) == 0 {
		delete(w.of, key)
		return
	}
	w.of[key] = policies
}

// has reports whether a request waits.
func (w *waiting) has(key requestKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of[key]) > 0
}

// keep forgets the policies that are not in a set.
func (w *waiting) keep(set *certpolicy.Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, policies := range w.of {
		w.of[key] = slices.DeleteFunc(policies, func(name string) bool { return set.Policy(name) == nil })
	}
}

// waitsFor counts a request that is not decided if it waits for people, and notes
// what wakes it; began is the number of the first change that the decision may not
// have seen. Without a decision, nothing wakes it.
func (p *Policies) waitsFor(req *request.Request, d *Decision, began int) {
	key := requestKey{req.Kind, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}}
	if d == nil {
		p.ended(key)
		return
	}
	var policies []string
	if d.Outcome == v1alpha1.OutcomeNeedPeople {
		for _, r := range d.People.Requirements {
			if len(r.Missing) > 0 {
				policies = append(policies, r.Policy)
			}
		}
	}
	p.waiting.set(key, policies)
	p.undecided.wait(key, waitingRequest{certpolicy.SignerName(*req), factsOf(d)}, began)
}

// Ended says that a request does not wait for its approval any more: it is
// decided, or gone.
func (p *Policies) Ended(kind v1alpha1.RequestKind, key types.NamespacedName) {
	if p != nil {
		p.ended(requestKey{kind, key})
	}
}

func (p *Policies) ended(key requestKey) {
	p.waiting.set(key, nil)
	p.undecided.set(key, waitingRequest{})
}
