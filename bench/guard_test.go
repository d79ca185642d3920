package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// guarded returns a round of a guard in which a certificate costs this much CPU now and
// before.
func guarded(now, before float64) *results {
	of := func(cpu float64) *results {
		round := roundResult{Requesters: 64, Certificates: 100, cost: cost{ServerCPUMilliseconds: cpu, AllocatedKB: 100 * cpu, Allocations: 1000 * cpu}}
		return &results{Systems: []systemResult{{Name: threeStepSystem, Rounds: []roundResult{round}}}}
	}
	r := of(now)
	r.Before = of(before)
	return r
}

func TestGuard(t *testing.T) {
	tests := []struct {
		reason string
		rounds []*results
		fails  string // part of the error, or empty
	}{
		{"the same cost", []*results{guarded(3, 3), guarded(3, 3), guarded(3, 3)}, ""},
		{"less than before", []*results{guarded(1, 3), guarded(1, 3), guarded(1, 3)}, ""},
		{"9 % more", []*results{guarded(3.27, 3), guarded(3.27, 3), guarded(3.27, 3)}, ""},
		{"11 % more", []*results{guarded(3.33, 3), guarded(3.33, 3), guarded(3.33, 3)}, "certplane, 64 requesters: the CPU for each is 1.11"},
		{"two slow rounds of five are noise", []*results{guarded(6, 3), guarded(3, 3), guarded(6, 3), guarded(3, 3), guarded(3, 3)}, ""},
		{"three slow rounds of five are not", []*results{guarded(6, 3), guarded(3, 3), guarded(6, 3), guarded(3, 3), guarded(6, 3)}, "2.00"},
		{"rounds are compared with their own: a slow machine slows both", []*results{guarded(9, 9), guarded(3, 3), guarded(8, 8)}, ""},
		{"nothing was issued, which costs nothing", []*results{guarded(0, 3)}, "no CPU was measured"},
		{"nothing was issued before", []*results{guarded(3, 0)}, "no CPU was measured"},
		{"no older certplane", []*results{{Systems: guarded(3, 3).Systems}}, "nothing was compared"},
		{"no parts", []*results{{Before: &results{}}}, "nothing was compared"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			compared := compareWithBefore(test.rounds)
			err := verdict(compared)
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			if _, err := json.Marshal(compared); err != nil {
				t.Errorf("writing JSON: %v", err)
			}
		})
	}
}

func TestGuardFailsIfRequestsFail(t *testing.T) {
	for name, fail := range map[string]func(*results){
		"now":    func(r *results) { r.Systems[0].Rounds[0].Errors = 1 },
		"before": func(r *results) { r.Before.Systems[0].Rounds[0].Errors = 1 },
	} {
		r := guarded(1, 3)
		fail(r)
		if err := verdict(compareWithBefore([]*results{guarded(1, 3), r})); err == nil {
			t.Errorf("one request failed %s, and the guard passes", name)
		}
	}
}

// Both programs are measured one right after the other, peers only once, and each program is
// first in every other round.
func TestGuardTakesTurns(t *testing.T) {
	var got []string
	note := func(name string, others bool) part {
		return part{name: name, others: others, run: func(_ context.Context, opts options, _ *results) error {
			got = append(got, name+" of "+opts.certplane)
			return nil
		}}
	}
	for i := range 2 {
		r, err := measure(t.Context(), options{certplane: "now", before: "before"}, []part{note("acme", false), note("kubernetes", true), note("pods", false)}, i == 1)
		if err != nil || r.Before == nil {
			t.Fatal(r, err)
		}
	}
	want := []string{
		"acme of now", "acme of before", "kubernetes of now", "pods of now", "pods of before",
		"acme of before", "acme of now", "kubernetes of now", "pods of before", "pods of now",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected order (-want +got):\n%s", diff)
	}
}

func TestGoalsAreComparedWithBefore(t *testing.T) {
	r := &results{Memory: &memoryResult{Idle: restMemory{ResidentMB: 100}}, Before: &results{Memory: &memoryResult{Idle: restMemory{ResidentMB: 90}}}}
	r.compare()
	i := slices.IndexFunc(r.Goals, func(g goal) bool { return g.What == "memory, idle" })
	if i < 0 || r.Goals[i].Is != 100 || r.Goals[i].Before == nil || *r.Goals[i].Before != 90 {
		t.Errorf("got goals %+v", r.Goals)
	}
}

// Each rate is compared with the best rate of fewer requesters, in whatever order the rounds
// ran.
func TestRatesThatFall(t *testing.T) {
	var got []string
	s := systemResult{Name: threeStepSystem, Rounds: []roundResult{{Requesters: 64, Rate: 500}, {Requesters: 16, Rate: 400}, {Requesters: 1024, Rate: 480}, {Requesters: 256, Rate: 250}}}
	for _, g := range s.rateGoals() {
		got = append(got, fmt.Sprintf("%s: %.2f, %s", g.What, g.Is, g.met()))
	}
	want := []string{"certplane, 64 requesters: rate: 1.25, yes", "certplane, 256 requesters: rate: 0.50, no", "certplane, 1024 requesters: rate: 0.96, yes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected rates (-want +got):\n%s", diff)
	}
}

func TestParseAllocated(t *testing.T) {
	const metrics = `# HELP go_memstats_alloc_bytes_total Total number of bytes allocated, even if freed.
# TYPE go_memstats_alloc_bytes_total counter
go_memstats_alloc_bytes_total 1.5e+06
# TYPE go_memstats_mallocs_total counter
go_memstats_mallocs_total 2000
`
	got, err := parseAllocated(metrics)
	if want := (allocated{bytes: 1.5e6, objects: 2000}); got != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseAllocated("go_threads 5\n"); err == nil {
		t.Error("metrics without allocations are accepted")
	}
}

func TestCostForEach(t *testing.T) {
	if got := (consumption{}).each(0); got.ServerCPUMilliseconds != 0 {
		t.Errorf("got %+v without items", got)
	}
	c := consumption{serverCPU: 300e6, allocated: allocated{bytes: 1e6, objects: 500}}
	if got := c.each(100); got.ServerCPUMilliseconds != 3 || got.AllocatedKB != 10 || got.Allocations != 5 {
		t.Errorf("got %+v", got)
	}
}
