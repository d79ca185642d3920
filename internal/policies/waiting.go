package policies

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
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

// set notes the policies that a request waits for; none if it does not wait.
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
