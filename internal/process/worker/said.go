package worker

import (
	"slices"
	"sync"
	"time"
)

// Said remembers the last reports about each subject, so that a loop that looks again reports
// a state once. Its zero value is empty. It is safe for concurrent use.
type Said[K, R comparable] struct {
	mu   sync.Mutex // guards last
	last map[K][]R
}

// News returns those of the reports that were not among the last ones about a subject, and
// remembers all. Zero values do not count. It forgets a subject without reports.
func (s *Said[K, R]) News(about K, reports ...R) (news []R) {
	var nothing R
	reports = slices.DeleteFunc(reports, func(report R) bool { return report == nothing })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, report := range reports {
		if !slices.Contains(s.last[about], report) {
			news = append(news, report)
		}
	}
	if s.last == nil {
		s.last = map[K][]R{}
	}
	if s.last[about] = reports; len(reports) == 0 {
		delete(s.last, about)
	}
	return news
}

// About returns the subjects that have a report for which isConcerned is true.
func (s *Said[K, R]) About(isConcerned func(K, R) bool) (subjects []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for about, reports := range s.last {
		if slices.ContainsFunc(reports, func(report R) bool { return isConcerned(about, report) }) {
			subjects = append(subjects, about)
		}
	}
	return subjects
}

// Seldom limits repeated reports about a subject to one in an interval. Its zero value has none.
// It is safe for concurrent use.
type Seldom[K comparable] struct {
	mu   sync.Mutex // guards last
	last map[K]time.Time
}

// Due reports whether there was no report about a subject since every before now, and remembers
// one if so.
func (s *Seldom[K]) Due(about K, now time.Time, every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[about]; ok && now.Sub(last) < every {
		return false
	}
	kept := map[K]time.Time{about: now}
	for other, at := range s.last {
		if other != about && now.Sub(at) < every {
			kept[other] = at
		}
	}
	s.last = kept
	return true
}
