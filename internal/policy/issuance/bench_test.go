package issuance_test

import (
	"testing"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// BenchmarkSettled measures the cost of one reconciliation of a Certificate
// that needs nothing.
func BenchmarkSettled(b *testing.B) {
	w := newWorld(b)
	s := w.situation()
	b.ReportAllocs()
	for b.Loop() {
		if !backoff.Decide(s, now).Why.None() || !issuance.Ready(s, now).Problem.None() {
			b.Fatal("not settled")
		}
	}
}
