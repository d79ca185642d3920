package pki

import "time"

// Earlier returns the earlier of two moments.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Later returns the later of two moments.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Soonest returns the earliest of some moments. It ignores zero moments, and returns zero if
// there are no others.
func Soonest(moments ...time.Time) time.Time {
	var soonest time.Time
	for _, moment := range moments {
		if soonest.IsZero() || !moment.IsZero() && moment.Before(soonest) {
			soonest = moment
		}
	}
	return soonest
}
