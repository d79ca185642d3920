package challenge

import (
	"fmt"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/policy/order"
)

// CleanUpTime is how long clean-ups of a Challenge that is being deleted are
// tried. Then the Challenge goes, and what it has made may stay.
const CleanUpTime = 10 * time.Minute

// CleanedUp returns the result of a CleanUp that succeeded, and of Close.
func (s Situation) CleanedUp() Result {
	r := s.result()
	r.Memory = r.Memory.succeeded(CleanUp)
	r.Status.Presented, r.Status.Processing = false, false
	if strings.HasPrefix(r.Status.Reason, reasonCleanUp) {
		if r.Status.Reason = s.Memory.ended; r.Status.Reason == "" && r.Status.State == acmev1.Valid {
			r.Status.Reason = reasonDone
		}
	}
	return r
}

// CleanUpFailed returns the result of a CleanUp that failed, and whether the Challenge
// should go nevertheless. hopeless is set if it will never succeed.
func (s Situation) CleanUpFailed(err error, hopeless bool) (r Result, abandon bool) {
	r = s.result()
	deleted := s.Challenge.DeletionTimestamp
	wait := presenting
	if deleted != nil {
		wait = cleaning
		if end := deleted.Add(CleanUpTime); hopeless || !s.Now.Before(end) {
			return s.abandoned(err), true
		}
	}
	r.Memory = r.Memory.failed(CleanUp, s.Now, s.wait(wait))
	if deleted != nil {
		r.Memory.Due = earliest(r.Memory.Due, deleted.Add(CleanUpTime))
	}
	if !strings.HasPrefix(r.Status.Reason, reasonCleanUp) {
		r.Memory.ended = r.Status.Reason
	}
	r.Status.Reason = Stable(reasonCleanUp + err.Error())
	if order.IsFailure(r.Status.State) && r.Memory.ended != "" {
		r.Status.Reason = fit(r.Status.Reason + "; the challenge had failed before: " + r.Memory.ended)
	}
	if r.Status.Reason != s.Challenge.Status.Reason {
		r.Events = []Event{{Warning: true, Reason: "CleanUpError", Note: r.Status.Reason}}
	}
	return r, false
}

func (s Situation) abandoned(err error) Result {
	r := s.result()
	r.Status.Presented, r.Status.Processing = false, false
	r.Status.Reason = Stable(reasonCleanUp + err.Error())
	r.Events = []Event{{Warning: true, Reason: "CleanUpAbandoned", Note: fmt.Sprintf(
		"Cleaning up was given up, remove what is left: %s: %s", leftover(s.Challenge), Stable(err.Error()))}}
	return r
}

// leftover describes what a Challenge may have left behind.
func leftover(ch *acmev1.Challenge) string {
	var what string
	switch {
	case IsDNS(ch):
		what = fmt.Sprintf("the TXT record %q below %s", ch.Spec.Key, ch.Spec.DNSName)
	case ch.Spec.Type == acmev1.ACMEChallengeTypeHTTP01:
		what = fmt.Sprintf("the path /.well-known/acme-challenge/%s of %s in Ingresses and HTTPRoutes, its Pod and its Service", ch.Spec.Token, ch.Spec.DNSName)
	default:
		what = fmt.Sprintf("the answer to the %s challenge of %s", ch.Spec.Type, ch.Spec.DNSName)
	}
	if where := ch.Annotations[Presented]; where != "" {
		what += " (" + where + ")"
	}
	return what
}
