package retention

import (
	"fmt"
	"testing"
	"time"
)

// What each event of a request costs.
func BenchmarkDecide(b *testing.B) {
	for name, c := range map[string]*csr{
		"pending": newCSR(time.Hour),
		"issued":  newCSR(time.Hour, says(approved, time.Minute), valid(b, time.Minute, time.Hour)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(c, now, limits)
			}
		})
	}
}

// BenchmarkSurplus measures the cost of Surplus for a requester that has too
// many requests.
func BenchmarkSurplus(b *testing.B) {
	var requests []*csr
	for i := range 12000 {
		c := newCSR(time.Hour + time.Duration(i*7919%12000)*time.Second)
		c.Name = fmt.Sprint(i)
		requests = append(requests, c)
	}
	b.ReportAllocs()
	for b.Loop() {
		Surplus(requests, now, Cap{Max: 1000, Spare: time.Minute})
	}
}
