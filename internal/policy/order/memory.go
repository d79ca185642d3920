package order

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/backoff"
)

const (
	// The waits between two requests for the state of an order.
	firstPoll = time.Second
	lastPoll  = 15 * time.Second
	// tolerated is how many times in a row the CA may blame the account of an
	// issuer that is ready.
	tolerated = 5
)

// The waits after requests to the CA that failed. What is wrong with an account
// takes longer to be put right.
var (
	pauses        = backoff.Backoff{First: 5 * time.Second, Most: 30 * time.Minute}
	accountPauses = backoff.Backoff{First: time.Minute, Most: 30 * time.Minute}
)

// Answered records an answer of the CA about the order. The next request waits
// longer while the state stays the same.
func (m *Memory) Answered(said rfc8555.Order, now time.Time) {
	changed := m.Order == nil || m.Order.Status != said.Status
	m.Order, m.Faults = &said, 0
	if said.Status == rfc8555.StateProcessing || said.Status == rfc8555.StateValid {
		m.Refusals, m.Blames = 0, 0
	}
	m.forgive()
	m.Class, m.Reason, m.NotBefore = WaitsCA, "", time.Time{}
	if changed {
		m.Polls = 0
	} else {
		m.Polls++
		m.NotBefore = now.Add(PollPause(m.Polls))
	}
	unfinished := said.Status == rfc8555.StatePending || said.Status == rfc8555.StateProcessing
	if again := Bounded(said.RetryAfter, now); unfinished && again.After(m.NotBefore) {
		m.NotBefore = again
	}
}

// Succeeded records that a request to the CA has succeeded.
func (m *Memory) Succeeded() {
	m.Faults, m.Class, m.Reason, m.NotBefore = 0, Unhindered, "", time.Time{}
	m.forgive()
}

// forgive forgets that the CA has blamed the account, except over requests for the
// certificate: answers to other requests prove nothing for those.
func (m *Memory) forgive() {
	if m.Blamed != Finalize {
		m.Blames = 0
	}
}

// PollPause returns how long to wait after that many answers that said nothing
// new.
func PollPause(polls int) time.Duration {
	return backoff.Backoff{First: firstPoll, Most: lastPoll}.After(polls)
}

// Fault is why a request to the CA failed. All fields but Err can be empty.
type Fault struct {
	// Err is the error.
	Err error
	// Problem is the answer of the CA.
	Problem *rfc8555.Problem
	// Permanent means that the request was not even sent: it could not succeed.
	Permanent bool
	// Until is when the request may be sent, which was delayed because the CA limits such
	// requests. Limit names them, Detail is the message of the CA.
	Until         time.Time
	Limit, Detail string
}

// prefixes are how the reasons of Orders begin for which an action failed.
var prefixes = map[Action]string{
	Create:             "Failed to create Order: ",
	Read:               "Failed to retrieve Order resource: ",
	ReadAuthorizations: "Failed to fetch authorization: ",
	Recheck:            "Failed to fetch authorization: ",
	Finalize:           "Failed to finalize Order: ",
	Download:           "Failed to retrieve signed certificate: ",
}

// Assumed returns what a controller remembers that has just learned the state of
// an Order: explanations, which cannot ask the CA, decide with it.
func Assumed(o *acmev1.Order) Memory {
	if o.Status.URL == "" {
		return Memory{}
	}
	known := &rfc8555.Order{URL: o.Status.URL, Status: cmp.Or(string(o.Status.State), rfc8555.StatePending)}
	if o.Status.State == acmev1.Valid {
		known.Certificate = o.Status.URL // any URL: there is a certificate
	}
	return Memory{Order: known}
}

// Failed records that an action failed. It returns the step with which the Order ends, or
// Await. ready is set if the status of the issuer is Ready.
func (m *Memory) Failed(a Action, f Fault, ready bool, now time.Time) Step {
	if a == Finalize {
		m.Refusals++
		m.Order = nil // the CA may have acted
	}
	m.Faults++
	switch {
	case f.Permanent:
		return ended(a, acmev1.Errored, f.Err)
	case !f.Until.IsZero():
		return m.limited(Bounded(f.Until, now), cmp.Or(f.Limit, limitOf(a)), f.Detail)
	case f.Problem == nil:
		return m.hold(WaitsCA, "The CA cannot be reached, or its answer cannot be read; trying again", now, time.Time{})
	}
	return m.judged(a, f.Problem, ready, now)
}

func (m *Memory) judged(a Action, p *rfc8555.Problem, ready bool, now time.Time) Step {
	verdict := Judge(p)
	if verdict == IssuersFault {
		m.Blamed, m.Blames = a, m.Blames+1
	}
	switch {
	case verdict == Wait:
		return m.limited(WaitUntil(p, now), limitOf(a), p.Detail)
	case verdict == Reread:
		m.Order = nil
		return m.hold(WaitsCA, "The CA is not ready for the request ("+brief(p)+"); trying again", now, p.RetryAfter)
	case verdict == IssuersFault && m.Blames >= tolerated && ready:
		return ended(a, acmev1.Errored, p)
	case verdict == IssuersFault:
		m.Recheck = a == Finalize && p.HasType(rfc8555.ProblemUnauthorized)
		return m.hold(WaitsIssuer, bounded("The CA refuses the request; check the account of the issuer: "+p.Error()), now, p.RetryAfter)
	case verdict == Gone && (a == Read || a == Finalize):
		return Step{Action: End, State: acmev1.Expired, Reason: bounded("The CA no longer knows the order: " + p.Error())}
	case verdict == Gone, verdict == Permanent:
		return ended(a, acmev1.Errored, p)
	}
	return m.hold(WaitsCA, "The CA has a temporary problem ("+brief(p)+"); trying again", now, p.RetryAfter)
}

func ended(a Action, state acmev1.State, err error) Step {
	return Step{Action: End, State: state, Reason: bounded(prefixes[a] + err.Error())}
}

// limitedReason begins the reason of an Order that waits because of a limit.
const limitedReason = "waiting until "

// IsLimited reports whether an Order waits because of a limit of the CA.
func IsLimited(s *acmev1.OrderStatus) bool { return strings.HasPrefix(s.Reason, limitedReason) }

// limited holds requests back because the CA limits them.
func (m *Memory) limited(until time.Time, limit, detail string) Step {
	m.Class, m.NotBefore, m.LimitedUntil = WaitsLimit, until, until
	shown := until.UTC().Add(time.Minute - time.Nanosecond).Truncate(time.Minute).Format(time.RFC3339)
	m.Reason = strings.TrimSuffix(bounded(fmt.Sprintf(limitedReason+"%s because the CA limits %s: %s", shown, limit, detail)), ": ")
	return m.await()
}

// limitOf names what a CA limits that refuses an action.
func limitOf(a Action) string {
	if a == Create {
		return "new orders"
	}
	return "requests"
}

// hold holds requests back for a while, which is longer after each failure.
func (m *Memory) hold(class Class, reason string, now, retryAfter time.Time) Step {
	waits := pauses
	if class == WaitsIssuer && !m.Recheck {
		waits = accountPauses
	}
	m.Class, m.Reason, m.NotBefore = class, reason, now.Add(waits.After(max(m.Faults, m.Refusals)))
	if again := Bounded(retryAfter, now); again.After(m.NotBefore) {
		m.NotBefore = again
	}
	return m.await()
}

func (m *Memory) await() Step {
	return Step{Action: Await, Class: m.Class, Reason: m.Reason, Again: m.NotBefore}
}

// Invalidated returns how an Order ends whose order is invalid. The reason comes from the
// order, else from its authorizations, else from the Challenges.
func Invalidated(said rfc8555.Order, authorizations []rfc8555.Authorization, challenges []*acmev1.Challenge) Step {
	end := Step{Action: End, State: acmev1.Invalid, Delete: unfinished(challenges)}
	if said.Status == rfc8555.StateExpired {
		end.State = acmev1.Expired
	}
	switch why := authorizationProblems(authorizations); {
	case said.Error != nil:
		end.Reason = "The CA says that the order is " + said.Status + ": " + said.Error.Error()
	case why != "":
		end.Reason = why
	default:
		end.Reason = "The CA says that the order is " + said.Status + ", but not why"
		for _, c := range challenges {
			if IsFailure(c.Status.State) {
				end.Reason = failureOf(c)
			}
		}
	}
	end.Reason = bounded(end.Reason)
	return end
}

// Cause returns the problem that made an order invalid; nil if the CA gives none.
func Cause(said rfc8555.Order, authorizations []rfc8555.Authorization) *rfc8555.Problem {
	if said.Error != nil {
		return said.Error
	}
	for _, a := range authorizations {
		for _, c := range a.Challenges {
			if c.Error != nil {
				return c.Error
			}
		}
	}
	return nil
}

// authorizationProblems describes why authorizations are invalid.
func authorizationProblems(authorizations []rfc8555.Authorization) string {
	var all []string
	for _, a := range authorizations {
		for _, c := range a.Challenges {
			if c.Error != nil {
				all = append(all, fmt.Sprintf("The validation of %s by %s has failed: %v", domainSaid(a), c.Type, c.Error))
			}
		}
	}
	return strings.Join(all, "; ")
}

func domainSaid(a rfc8555.Authorization) string {
	if a.Wildcard {
		return "*." + a.Identifier.Value
	}
	return a.Identifier.Value
}
