package challenge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

// DefaultDeadline is how long a Challenge may take, unless the settings change it.
const DefaultDeadline = 24 * time.Hour

// Assumed returns what a controller remembers that has brought a Challenge to
// where it is: explanations, which cannot ask the CA, decide with it. Waits after
// failures are not known.
func Assumed(ch *acmev1.Challenge, now time.Time) Memory {
	m := Memory{Read: ch.Status.State != acmev1.Unknown}
	switch reason := ch.Status.Reason; {
	case ch.Status.State == acmev1.Processing, strings.HasPrefix(reason, reasonValidating):
		m.Accepted = now
	case strings.HasPrefix(reason, reasonPassed), strings.HasPrefix(reason, reasonAccept), ch.Status.Presented && strings.HasPrefix(reason, reasonLimited):
		m.Passed = now
	}
	return m
}

// Holders returns the Challenges that hold the Place that another one waits for.
func Holders(ch *acmev1.Challenge, all []*acmev1.Challenge) []*acmev1.Challenge {
	place := PlaceOf(ch)
	if place.Limit == 0 {
		return nil
	}
	var holders []*acmev1.Challenge
	for _, other := range all {
		if other.Name != ch.Name && PlaceOf(other).Name == place.Name && other.Status.Processing && !order.IsFinal(other.Status.State) {
			holders = append(holders, other)
		}
	}
	if len(holders) < place.Limit {
		return nil
	}
	return holders
}

// Slowest returns the Challenge for which an Order waits longest: a failed one, else the
// one that has progressed least, else the oldest. It is nil if the Order waits for none.
func Slowest(challenges []*acmev1.Challenge, now time.Time) *acmev1.Challenge {
	var slowest *acmev1.Challenge
	for _, ch := range challenges {
		if ch.Status.State != acmev1.Valid && (slowest == nil || compareProgress(ch, slowest, now) < 0) {
			slowest = ch
		}
	}
	return slowest
}

// stages are the steps from the first to the last.
var stages = []Step{GiveUp, Start, Read, Present, Check, Delay, Accept, Poll}

func compareProgress(a, b *acmev1.Challenge, now time.Time) int {
	return cmp.Or(
		cmp.Compare(stageOf(a, now), stageOf(b, now)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Spec.DNSName, b.Spec.DNSName),
		cmp.Compare(a.Name, b.Name),
	)
}

func stageOf(ch *acmev1.Challenge, now time.Time) int {
	if order.IsFailure(ch.Status.State) {
		return -1
	}
	next := Situation{Challenge: ch, Memory: Assumed(ch, now), Now: now, Rules: Rules{Deadline: DefaultDeadline}}.Next()
	return slices.Index(stages, next.Step)
}
