package acmeorder

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/duration"
)

// Names of the objects, as all functions here use them.
type (
	order         = v1alpha1.AcmeOrder
	orderStatus   = v1alpha1.AcmeOrderStatus
	authorization = v1alpha1.AcmeAuthorization
)

// Lateness is how long after an expiry an order or authorization counts as
// expired: the clocks of the replicas of a server differ by less.
const Lateness = time.Minute

func expired(expires *metav1.Time, now time.Time) bool {
	return expires != nil && !now.Before(expires.Add(Lateness))
}

// AuthorizationState returns the state of an authorization (RFC 8555 section
// 7.1.6).
func AuthorizationState(a *authorization, now time.Time) string {
	switch a.State {
	case rfc8555.StatePending, rfc8555.StateValid:
		if expired(a.Expires, now) {
			return rfc8555.StateExpired
		}
	}
	return a.State
}

// OrderState returns the state of an order (RFC 8555 section 7.1.6). Until it is
// finalized, it follows from its authorizations and the time, so that an order and
// its authorizations never disagree.
func OrderState(o *order, now time.Time) string {
	s := &o.Status
	switch {
	case s.State == v1alpha1.AcmeOrderValid, s.State == v1alpha1.AcmeOrderInvalid:
		return string(s.State)
	case expired(s.Expires, now):
		return rfc8555.StateInvalid
	case s.State == v1alpha1.AcmeOrderProcessing:
		return rfc8555.StateProcessing
	case len(s.Authorizations) == 0 || len(s.Authorizations) < len(o.Spec.Identifiers):
		return rfc8555.StatePending // its status is not written yet
	}
	state := rfc8555.StateReady
	for i := range s.Authorizations {
		switch AuthorizationState(&s.Authorizations[i], now) {
		case rfc8555.StateValid:
		case rfc8555.StatePending:
			state = rfc8555.StatePending
		default:
			return rfc8555.StateInvalid
		}
	}
	return state
}

// Problem returns why an order is invalid, nil if it is not.
func Problem(o *order, now time.Time) *rfc8555.Problem {
	switch {
	case OrderState(o, now) != rfc8555.StateInvalid:
		return nil
	case o.Status.Error != nil:
		return Shown(o.Status.Error)
	case o.Status.State == v1alpha1.AcmeOrderInvalid:
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the order is invalid")
	case o.Status.State == v1alpha1.AcmeOrderProcessing:
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "%s", waitedTooLong(&o.Status))
	case expired(o.Status.Expires, now):
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the order has expired")
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		if state := AuthorizationState(a, now); state != rfc8555.StateValid && state != rfc8555.StatePending {
			return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the authorization for %s is %s", rfc8555.Quote(ordered(a)), state)
		}
	}
	return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the order is invalid")
}

func waitedTooLong(s *orderStatus) string {
	period := "the time for it"
	if s.Finalized != nil && s.Expires != nil {
		period = hours(s.Expires.Sub(s.Finalized.Time))
	}
	if s.Approval != nil {
		return "it was approved, but the certificate was not issued within " + period
	}
	return "it was not approved within " + period
}

// hours returns the text of a length, to the second.
func hours(d time.Duration) string { return duration.Format(d.Round(time.Second)) }

// ordered returns the name or address as the client has ordered it.
func ordered(a *authorization) string {
	if a.Wildcard {
		return "*." + a.Identifier.Value
	}
	return a.Identifier.Value
}

// OrderedIdentifier returns the identifier of an authorization as the client has
// ordered it, wildcards with the leading "*.".
func OrderedIdentifier(a *v1alpha1.AcmeAuthorization) rfc8555.Identifier {
	return rfc8555.Identifier{Type: a.Identifier.Type, Value: ordered(a)}
}

// ShownChallenges returns the indexes of the challenges that a client sees (RFC 8555
// section 7.1.4): all challenges of a pending authorization, or the challenge that made
// the authorization valid or invalid.
func ShownChallenges(a *authorization) []int {
	var all, decisive []int
	for i, c := range a.Challenges {
		all = append(all, i)
		if a.State == rfc8555.StateInvalid && c.State == rfc8555.StateInvalid ||
			a.State != rfc8555.StatePending && a.State != rfc8555.StateInvalid && c.State == rfc8555.StateValid {
			decisive = append(decisive, i)
		}
	}
	if len(decisive) > 0 {
		return decisive
	}
	return all
}

// Token returns the token of a challenge (RFC 8555 section 8.1). It is random, because the
// seed of the order is. Orders of earlier versions have their tokens stored.
func Token(o *order, at Position) string {
	a := &o.Status.Authorizations[at.Authorization]
	c := &a.Challenges[at.Challenge]
	if c.Token != "" || o.Status.TokenSeed == "" {
		return c.Token
	}
	mac := hmac.New(sha256.New, []byte(o.Status.TokenSeed))
	fmt.Fprintf(mac, "%s %s %s", c.Type, a.Identifier.Type, ordered(a))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Position is where a challenge is in an order.
type Position struct{ Authorization, Challenge int }

// at returns the authorization and the challenge, nil if there are none.
func at(s *orderStatus, p Position) (*authorization, *v1alpha1.AcmeChallenge) {
	if p.Authorization < 0 || p.Authorization >= len(s.Authorizations) {
		return nil, nil
	}
	a := &s.Authorizations[p.Authorization]
	if p.Challenge < 0 || p.Challenge >= len(a.Challenges) {
		return a, nil
	}
	return a, &a.Challenges[p.Challenge]
}

// DueChallenges returns the challenges that are to be tried now, and when the next
// one is; zero if none is processing.
func DueChallenges(o *order, now time.Time) (due []Position, next time.Time) {
	if OrderState(o, now) != rfc8555.StatePending {
		return nil, time.Time{}
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		if AuthorizationState(a, now) != rfc8555.StatePending {
			continue
		}
		for j := range a.Challenges {
			c := &a.Challenges[j]
			switch {
			case c.State != rfc8555.StateProcessing:
			case c.NextAttempt == nil || !now.Before(c.NextAttempt.Time):
				due = append(due, Position{i, j})
			case next.IsZero() || c.NextAttempt.Time.Before(next):
				next = c.NextAttempt.Time
			}
		}
	}
	return due, next
}
