package worker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/process/worker"
)

// A report is news once for each subject, until it has ended.
func TestSaid(t *testing.T) {
	s := &worker.Said[string, int]{}
	for i, tc := range []struct {
		about         string
		reports, want []int
	}{
		{"a", []int{1, 2}, []int{1, 2}},
		{"a", []int{2, 1}, nil},
		{"b", []int{1}, []int{1}},
		{"a", []int{2, 3}, []int{3}},
		{"a", []int{0}, nil},
		{"a", []int{2}, []int{2}},
		{"a", nil, nil},
	} {
		if got := s.News(tc.about, tc.reports...); !slices.Equal(got, tc.want) {
			t.Errorf("%d: %v", i, got)
		}
	}
	if about := s.About(func(string, int) bool { return true }); !slices.Equal(about, []string{"b"}) {
		t.Errorf("about %q", about)
	}
}

// Each subject has one report in an interval.
func TestSeldom(t *testing.T) {
	s, start := &worker.Seldom[string]{}, time.Now()
	for i, tc := range []struct {
		about string
		after time.Duration
		want  bool
	}{{"a", 0, true}, {"a", time.Minute - 1, false}, {"b", time.Minute - 1, true}, {"a", time.Minute, true}, {"b", time.Minute, false}, {"a", time.Minute, false}} {
		if got := s.Due(tc.about, start.Add(tc.after), time.Minute); got != tc.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}
