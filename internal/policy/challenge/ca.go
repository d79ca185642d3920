package challenge

import (
	"fmt"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
)

// What is wrong with a Challenge that cannot be read.
const (
	reasonNoURL        = "challenge URL is blank - challenge has not been created yet"
	reasonNotPresent   = "challenge was not present in authorization"
	reasonUnknownState = "could not determine acme challenge status. retrying after applying back-off"
)

// HasRead returns the result of Read: the state that the CA gives the
// Challenge.
func (s Situation) HasRead(authz rfc8555.Authorization) Result {
	r := s.heard(Read, authz)
	own, found := s.own(authz)
	switch state := order.State(authz.Status); {
	case state == acmev1.Valid || (order.IsFailure(state) && s.Challenge.Status.Presented):
		return s.concluded(r, authz)
	case s.Challenge.Spec.URL == "":
		return s.fail(r, acmev1.Errored, reasonNoURL)
	case !found && !order.IsFailure(state):
		return s.fail(r, acmev1.Errored, reasonNotPresent)
	case order.IsFailure(state):
		if r.Status.State, r.Status.Reason = state, fit(problemDetail(own.Error)); r.Status.Reason == "" {
			r.Status.Reason = fit(reasonAuthorize + authorizationError(authz))
		}
		return r
	}
	return s.readOpen(r, own)
}

// readOpen returns the result of Read for a Challenge of a pending
// authorization.
func (s Situation) readOpen(r Result, own rfc8555.Challenge) Result {
	state := order.State(own.Status)
	switch {
	case state == acmev1.Unknown:
		r.Memory.Read = false
		r.Memory = r.Memory.failed(Read, s.Now, s.wait(asking))
		r.Status.Reason = reasonUnknownState
		return r
	case state == acmev1.Valid && !s.Challenge.Status.Presented:
		return s.verified(r)
	case s.Challenge.Status.Presented && (state == acmev1.Processing || state == acmev1.Valid):
		return s.begun(r, own)
	case order.IsFailure(state):
		r.Status.State, r.Status.Reason = state, fit(problemDetail(own.Error))
		return r
	case r.Memory.refusal != nil:
		return s.fail(r, r.Memory.refusal.state, r.Memory.refusal.reason)
	}
	r.Status.State = state
	if s.Memory.Step != Accept { // otherwise the reason still says why the CA was not asked
		r.Status.Reason = fit(problemDetail(own.Error))
	}
	return r
}

// AcceptedBy returns the result of Accept: the CA's answer.
func (s Situation) AcceptedBy(answer rfc8555.Challenge) Result {
	r := s.result()
	r.Memory = r.Memory.succeeded(Accept)
	return s.begun(r, answer)
}

// begun returns the result of the CA's beginning to validate. A final state
// counts only once it is read with the authorization.
func (s Situation) begun(r Result, answer rfc8555.Challenge) Result {
	r.Memory.Accepted, r.Memory.Polls, r.Memory.refusal = s.Now, 1, nil
	r.Memory = r.Memory.waiting(Poll, s.pollAt(1, answer.RetryAfter))
	r.Status.State = acmev1.Processing
	switch state := order.State(answer.Status); {
	case order.IsFinal(state):
		r.Memory.Due = s.Now
	case state == acmev1.Pending:
		r.Status.State = state
	}
	r.Status.Reason = s.validating(answer)
	return r
}

func (s Situation) validating(own rfc8555.Challenge) string {
	reason := fmt.Sprintf(reasonValidating+"%s challenge", s.Challenge.Spec.Type)
	if own.Error != nil { // the CA tries again
		reason += ": " + own.Error.Error()
	}
	return withNote(Stable(reason), s.Memory.Note)
}

// Polled returns the result of Poll.
func (s Situation) Polled(authz rfc8555.Authorization) Result {
	r := s.heard(Poll, authz)
	own, found := s.own(authz)
	switch {
	case order.IsFinal(order.State(authz.Status)):
		return s.concluded(r, authz)
	case !found:
		return s.fail(r, acmev1.Errored, reasonNotPresent)
	case order.IsFailure(order.State(own.Status)):
		// The authorization must follow (RFC 8555 section 7.1.6), but that of
		// step-ca stays pending until it expires.
		return s.invalidated(r, order.State(own.Status), authz)
	case order.State(own.Status) == acmev1.Pending && s.Now.Sub(s.Memory.Accepted) >= validationWait(own):
		// The CA has lost that it was asked, or never does more than this.
		r.Memory.Accepted, r.Memory.Passed = time.Time{}, time.Time{}
		r.Memory.Step = Nothing
		return r
	}
	r.Memory.Polls++
	r.Memory = r.Memory.waiting(Poll, s.pollAt(r.Memory.Polls, later(authz.RetryAfter, own.RetryAfter)))
	r.Status.Reason = s.validating(own)
	return r
}

// validationWait returns how long to wait for a CA in whose eyes a challenge is
// pending.
func validationWait(own rfc8555.Challenge) time.Duration {
	if own.Error != nil {
		return retryTime
	}
	return validationTime
}

// heard returns the result after an authorization was read, before its content is
// evaluated.
func (s Situation) heard(step Step, authz rfc8555.Authorization) Result {
	r := s.result()
	r.Memory = r.Memory.succeeded(step)
	r.Memory.Read, r.Memory.Expires = true, authz.Expires
	return r
}

// own returns the Challenge in its authorization.
func (s Situation) own(authz rfc8555.Authorization) (rfc8555.Challenge, bool) {
	for _, one := range authz.Challenges {
		if one.URL == s.Challenge.Spec.URL {
			return one, true
		}
	}
	return rfc8555.Challenge{}, false
}

// concluded returns the result of an authorization that is final.
func (s Situation) concluded(r Result, authz rfc8555.Authorization) Result {
	if state := order.State(authz.Status); state != acmev1.Valid {
		return s.invalidated(r, state, authz)
	}
	return s.verified(r)
}

// invalidated returns the result of a validation that has failed for good.
func (s Situation) invalidated(r Result, state acmev1.State, authz rfc8555.Authorization) Result {
	problem := authorizationError(authz)
	r.Status.State, r.Status.Reason = state, fit(reasonAuthorize+problem)
	r.Events = []Event{{Warning: true, Reason: eventFailed, Note: "Accepting challenge authorization failed: " + problem}}
	return r
}

func (s Situation) verified(r Result) Result {
	spec := s.Challenge.Spec
	r.Status.State, r.Status.Reason = acmev1.Valid, reasonDone
	r.Events = []Event{{Reason: "DomainVerified", Note: fmt.Sprintf("Domain %q verified with %q validation", spec.DNSName, spec.Type)}}
	return r
}

// authorizationError returns why an authorization has failed.
func authorizationError(authz rfc8555.Authorization) string {
	var problems []string
	for _, one := range authz.Challenges {
		if one.Error != nil {
			problems = append(problems, one.Error.Error())
		}
	}
	text := "acme: authorization error for " + authz.Identifier.Value
	if len(problems) == 0 {
		return text + ": the CA does not say why; the authorization is " + authz.Status
	}
	return text + ": " + strings.Join(problems, "; ")
}

func (s Situation) fail(r Result, state acmev1.State, reason string) Result {
	r.Status.State, r.Status.Reason = state, fit(reason)
	r.Events = []Event{{Warning: true, Reason: eventFailed, Note: "Accepting challenge authorization failed: " + reason}}
	return r
}

func problemDetail(p *rfc8555.Problem) string {
	if p == nil {
		return ""
	}
	return p.Detail
}
