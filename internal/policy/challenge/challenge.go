// Package challenge decides what to do next for a Challenge of an ACME server.
package challenge

import (
	"slices"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/process/backoff"
)

// Presented is the annotation that records where the answer to a Challenge is presented.
// It is written first, so that the answer can be removed from the same place. Admission
// allows only controllers to set it.
const Presented = certmanager.PresentedAnnotation

// Finalizers are the finalizers of Challenges whose answer may have been
// presented. New Challenges get the first one; the others are older spellings.
var Finalizers = []string{acmev1.ACMEDomainQualifiedFinalizer, acmev1.ACMELegacyFinalizer}

// HasFinalizer reports whether a Challenge has to be cleaned up at its end.
func HasFinalizer(ch *acmev1.Challenge) bool {
	return slices.ContainsFunc(ch.Finalizers, func(f string) bool { return slices.Contains(Finalizers, f) })
}

// WithFinalizer returns the finalizers that a Challenge must have before its
// answer is presented.
func WithFinalizer(ch *acmev1.Challenge) []string {
	return append(WithoutFinalizer(ch), Finalizers[0])
}

// WithoutFinalizer returns the finalizers of other programs.
func WithoutFinalizer(ch *acmev1.Challenge) []string {
	return slices.DeleteFunc(slices.Clone(ch.Finalizers), func(f string) bool { return slices.Contains(Finalizers, f) })
}

// Rules are the settings of the decisions.
type Rules struct {
	// CheckPeriod is how long to wait between self checks. Zero means waits that
	// grow from 2 seconds to a minute.
	CheckPeriod time.Duration
	// Deadline is how long a Challenge may take.
	Deadline time.Duration
}

// Memory is the state of a Challenge that is not in the object. It is lost with the
// process. The zero Memory is safe: the state is then read from the CA before anything
// else is done.
type Memory struct {
	// Since is when work on the Challenge began.
	Since time.Time
	// Read is set once the authorization has been read.
	Read bool
	// Expires is when the authorization expires; zero if that is not known.
	Expires time.Time

	// Passed is when the self check succeeded, and Delay how long to wait from then on;
	// Note is its remark.
	Passed time.Time
	Delay  time.Duration
	Note   string
	// Accepted is when the CA was asked to validate, and Polls how often the
	// result was asked for since.
	Accepted time.Time
	Polls    int
	// refusal is how the CA has refused to validate.
	refusal *refusal
	// ended is the reason for which the Challenge ended; while clean-ups fail,
	// it shows another one.
	ended string

	// Tries is how often Step has failed in a row, the last time at Tried. It is
	// due again at Due.
	Step       Step
	Tries      int
	Tried, Due time.Time
	// blamed is set if it has failed because of the issuer's account.
	blamed bool
}

// refusal is a permanent error of a CA that was asked to validate.
type refusal struct {
	state  acmev1.State
	reason string
}

// wakePause is how soon a failed step can be tried again after a change of what it needs.
// It limits the work that a user can cause by changing a Secret all the time.
const wakePause = 2 * time.Second

// Woken returns what is known after something has changed that may have made a
// step fail: the step need not wait any longer. The CA is not asked sooner.
func (m Memory) Woken(now time.Time) Memory {
	switch {
	case m.Step == Present, m.Step == Check, m.Step == CleanUp, m.Step == FindIssuer, m.blamed:
		if soon := later(now, m.Tried.Add(wakePause)); soon.Before(m.Due) {
			m.Due = soon
		}
	}
	return m
}

// failed returns what is known after another failure of a step.
func (m Memory) failed(step Step, now time.Time, wait func(tries int) time.Duration) Memory {
	if m.Step != step {
		m.Step, m.Tries = step, 0
	}
	m.Tries++
	m.blamed = false
	m.Tried, m.Due = now, now.Add(wait(m.Tries))
	return m
}

// waiting returns what is known before a wait for a step that has not failed.
func (m Memory) waiting(step Step, due time.Time) Memory {
	m.Step, m.Tries, m.Tried, m.Due, m.blamed = step, 0, time.Time{}, due, false
	return m
}

// delays reports whether the wait for the step that has failed is also one for
// another step.
func (m Memory) delays(step Step) bool {
	switch m.Step {
	case step:
		return true
	case Accept: // after an error, the authorization is read first
		return step == Read
	case FindIssuer:
		return needsIssuer(step)
	}
	return false
}

func needsIssuer(step Step) bool {
	switch step {
	case Read, Present, Check, Accept, Poll:
		return true
	}
	return false
}

// succeeded returns what is known after a step did not fail.
func (m Memory) succeeded(step Step) Memory {
	if m.Step == step || m.Step == FindIssuer {
		m.Step, m.Tries, m.Tried, m.Due, m.blamed = Nothing, 0, time.Time{}, time.Time{}, false
	}
	return m
}

// Situation is everything that decisions depend on.
type Situation struct {
	Challenge *acmev1.Challenge
	Memory    Memory
	Now       time.Time
	Rules     Rules
	// Jitter makes waits different; nil means that they are not.
	Jitter backoff.Jitter
}

// Event is an Event about a Challenge.
type Event struct {
	Warning      bool
	Reason, Note string
}

// Result is the consequence of a step.
type Result struct {
	Status acmev1.ChallengeStatus
	Memory Memory
	Events []Event
}

// result returns a Result in which nothing is different.
func (s Situation) result() Result {
	return Result{Status: *s.Challenge.Status.DeepCopy(), Memory: s.Memory}
}

// After returns the situation after a step.
func (s Situation) After(r Result) Situation {
	next := s.Challenge.DeepCopy()
	next.Status = r.Status
	s.Challenge, s.Memory = next, r.Memory
	return s
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier time; zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
