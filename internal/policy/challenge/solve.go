package challenge

import (
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// IssuerMissing returns the result of a step without an issuer, or with an issuer that is
// not ready. It is tried again when the issuer changes.
func (s Situation) IssuerMissing(err error) Result {
	r := s.result()
	r.Memory = r.Memory.failed(FindIssuer, s.Now, s.wait(presenting))
	r.Status.Reason = Stable(reasonIssuer + err.Error())
	return r
}

// Presented returns the result of a Present that succeeded.
func (s Situation) Presented() Result {
	r := s.result()
	r.Memory = r.Memory.succeeded(Present)
	r.Status.Presented = true
	if r.Status.PresentedAt == nil {
		r.Status.PresentedAt = &metav1.Time{Time: s.Now}
	}
	r.Status.Reason = ""
	r.Events = []Event{{Reason: "Presented", Note: fmt.Sprintf("Presented challenge using %s challenge mechanism", s.Challenge.Spec.Type)}}
	return r
}

// PresentFailed returns the result of a Present that failed.
func (s Situation) PresentFailed(err error) Result {
	r := s.result()
	r.Memory = r.Memory.failed(Present, s.Now, s.wait(presenting))
	r.Status.Reason = Stable(err.Error())
	if r.Status.Reason != s.Challenge.Status.Reason {
		r.Events = []Event{{Warning: true, Reason: eventPresentError, Note: "Error presenting challenge: " + r.Status.Reason}}
	}
	return r
}

// presentAgainAfter is after how many failed self checks a DNS record is
// written again, which costs requests to a DNS provider.
const presentAgainAfter = 5

// PresentAgain reports whether Check has to begin with Present: what was made
// may have been removed.
func (s Situation) PresentAgain() bool {
	if !IsDNS(s.Challenge) {
		return true
	}
	tries := s.Memory.Tries
	return s.Memory.Step == Check && tries > 0 && tries%presentAgainAfter == 0
}

// IsDNS reports whether a Challenge is solved by DNS records.
func IsDNS(ch *acmev1.Challenge) bool {
	switch ch.Spec.Type {
	case acmev1.ACMEChallengeTypeDNS01, certmanager.TypeDNSAccount01, certmanager.TypeDNSPersist01:
		return true
	}
	return false
}

// Checked returns the result of a Check that succeeded. delay is how long to wait from now
// on, note a remark for the user.
func (s Situation) Checked(delay time.Duration, note string) Result {
	r := s.result()
	r.Memory = r.Memory.succeeded(Check)
	r.Memory.Passed, r.Memory.Delay, r.Memory.Note = s.Now, max(delay, 0), note
	r.Status.Reason = ""
	if delay > 0 {
		r.Status.Reason = fmt.Sprintf(reasonPassed+"; waiting %s before accepting %s challenge", delay, s.Challenge.Spec.Type)
	}
	r.Status.Reason = withNote(r.Status.Reason, note)
	return r
}

// longCheck is how long self checks must fail until the reason names the time of the first
// failure.
const longCheck = 15 * time.Minute

// CheckFailed returns the result of a Check that failed.
func (s Situation) CheckFailed(err error) Result {
	r := s.result()
	r.Memory = r.Memory.failed(Check, s.Now, s.checkWait)
	reason := fmt.Sprintf("Waiting for %s challenge propagation: %v", s.Challenge.Spec.Type, err)
	if at := s.Challenge.Status.PresentedAt; at != nil && s.Now.Sub(at.Time) >= longCheck {
		reason = Stable(reason) + fmt.Sprintf("; no self check has succeeded since %s, and it is given up at %s", minute(at.Time), minute(s.deadline()))
	}
	r.Status.Reason = Stable(reason)
	return r
}

// Delayed returns the result of Delay: the time until the CA is asked begins
// when the answer is presented, not when this process starts.
func (s Situation) Delayed() Result {
	r := s.result()
	if r.Status.PresentedAt == nil {
		r.Status.PresentedAt = &metav1.Time{Time: s.Now}
	}
	left := s.After(r).waitEnd().Sub(s.Now)
	if left <= 0 {
		return r
	}
	next := left
	if left > time.Minute { // shown in minutes, so that the status seldom changes
		next = (left-1)%time.Minute + 1
		left = (left + time.Minute - 1).Truncate(time.Minute)
	}
	r.Memory = r.Memory.waiting(Delay, s.Now.Add(next))
	r.Status.Reason = fmt.Sprintf("Waiting %s before accepting %s challenge without self-check", left.Round(time.Second), s.Challenge.Spec.Type)
	return r
}

func withNote(reason, note string) string {
	switch {
	case note == "":
		return reason
	case reason == "":
		return Stable(note)
	}
	return Stable(reason + "; " + note)
}
