package issuance

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/backoff"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// conflictRetry is how often a Certificate whose Secret belongs to another one
// asks whether that is still so.
const conflictRetry = 3 * time.Minute

// Start is whether an issuance starts.
type Start struct {
	// Why is the reason to start now; there is none if nothing starts.
	Why Finding
	// Held, if it is not empty, says why nothing starts although something is
	// to be done.
	Held string
	// Warning is for an Event, whatever is decided.
	Warning Finding
	// Again is when the decision changes by itself; zero: only the Certificate,
	// its Secret or its requests can change it.
	Again time.Time
}

// Decide reports whether to start issuing a certificate now: whether something is
// wrong with the Secret or its certificate is due for renewal, and nothing
// holds the issuance back. Nothing starts while an issuance is under way, and
// for a Certificate that is being deleted. Who starts one calls SetIssuing.
func (b Backoff) Decide(s Situation, now time.Time) Start {
	if isDeleted(s.Certificate) || isIssuing(s.Certificate) {
		return Start{}
	}
	i := inspect(s, now)
	if conflicting := i.checkConflicting(); !conflicting.None() {
		return Start{Held: conflicting.Message, Again: now.Add(conflictRetry)}
	}
	why := i.find(append(common[:len(common):len(common)], (*inspection).checkRenewal)...)
	if why.None() {
		return Start{Again: i.renewalTime()}
	}
	var warning Finding
	if why.Reason == ReasonRenewing {
		warning = i.windowsMissed()
	}
	if until := s.nextRenewal(why); until.After(now) {
		return Start{Again: until, Held: fmt.Sprintf(
			"the last certificate was requested less than %v ago, the next one is at %s: shorten spec.renewBefore, or lengthen spec.duration",
			minRenewal, until.UTC().Format(time.RFC3339))}
	}
	if until := b.Until(s); until.After(now) {
		return Start{Again: until, Held: fmt.Sprintf(
			"the last issuance failed, the next attempt is at %s: change the spec or renew by hand to try at once", until.UTC().Format(time.RFC3339))}
	}
	return Start{Why: why, Warning: warning}
}

// minRenewal is the least time between two certificates of which the second is
// issued because it is time to renew the first. It is the shortest renewBefore
// that the API takes, so nobody who means what he says is slowed down by it; and
// a renewBefore as long as the certificate's life would have one issued after
// the other, without an end.
const minRenewal = 5 * time.Minute

// nextRenewal is until when a renewal has to wait; zero: nothing is known of the
// last certificate, or it is replaced for another reason.
func (s Situation) nextRenewal(why Finding) time.Time {
	if why.Reason != ReasonRenewing {
		return time.Time{}
	}
	return s.firstRenewal()
}

// firstRenewal is when the certificate of now may be renewed at the earliest.
func (s Situation) firstRenewal() time.Time {
	current := s.Current()
	if current == nil {
		return time.Time{}
	}
	return current.CreationTimestamp.Add(minRenewal)
}

// Backoff says how long to wait after failed issuances.
type Backoff struct {
	// Min is the wait after the first failure; it doubles with each.
	Min time.Duration
	// Max bounds it.
	Max time.Duration
}

// DefaultBackoff returns the one of servers that are not told otherwise.
func DefaultBackoff() Backoff { return Backoff{Min: time.Hour, Max: 32 * time.Hour} }

// Until returns until when nothing is issued for a Certificate because the last
// attempts have failed; zero if nothing holds it back. A spec that has been
// changed since then has not failed yet.
func (b Backoff) Until(s Situation) time.Time {
	last := s.Certificate.Status.LastFailureTime
	if last.IsZero() || s.differsFromNext() {
		return time.Time{}
	}
	return last.Add(b.wait(s.Certificate.Status.FailedIssuanceAttempts))
}

// wait returns the wait after a number of failures; old versions of the API did
// not count them.
func (b Backoff) wait(attempts *int) time.Duration {
	return backoff.Backoff{First: b.Min, Most: b.Max}.After(ptr.Deref(attempts, 1))
}

// differsFromNext reports whether the request that has failed asks for something
// else than the Certificate does now. If there was none, or it is gone, any
// change of the spec since the failure counts.
func (s Situation) differsFromNext() bool {
	next := s.Next()
	if issuing := certmanager.CertificateCondition(s.Certificate, cmv1.CertificateConditionIssuing); len(next) == 0 && issuing != nil {
		return issuing.ObservedGeneration < s.Certificate.Generation
	}
	for _, cr := range next {
		if repeated, err := wanted.IsRepeated(&s.Certificate.Spec, &cr.Spec); err != nil || !repeated {
			return true
		}
	}
	return false
}

// SetIssuing starts an issuance in the status of crt.
func SetIssuing(crt *cmv1.Certificate, why Finding, now time.Time) {
	certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, why.Reason, why.Message, metav1.NewTime(now))
}

// SetRenewing starts an issuance because somebody wants it, whatever the state
// of things and whatever has failed before.
func SetRenewing(crt *cmv1.Certificate, now time.Time) {
	SetIssuing(crt, Finding{Reason: ReasonManuallyTriggered, Message: messageManuallyTriggered}, now)
}
