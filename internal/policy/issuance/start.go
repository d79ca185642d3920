package issuance

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
	"github.com/certplane/certplane/internal/process/backoff"
)

// conflictRetry is how often a Certificate is checked again while its Secret
// belongs to another one.
const conflictRetry = 3 * time.Minute

// Start is the decision whether an issuance starts.
type Start struct {
	// Why is the reason to start now; empty if nothing starts.
	Why Finding
	// Held, if not empty, is why nothing starts although there is a reason to.
	Held string
	// Warning is for an Event, independent of the decision.
	Warning Finding
	// Again is when the decision changes with time; zero means that only a change of the
	// Certificate, its Secret or its requests can change it.
	Again time.Time
}

// Decide reports whether to start issuing a certificate now: whether something
// is wrong with the Secret or its certificate is due for renewal, and nothing
// holds the issuance back. Nothing starts while an issuance is under way, or
// for a Certificate that is being deleted. To start one, the caller must call
// SetIssuing.
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
	if why.Reason == ReasonRevoked && i.staysRevoked() {
		return Start{Held: why.Message}
	}
	var warning Finding
	if why.Reason == ReasonRenewing {
		warning = i.windowsMissed()
	}
	if until := i.nextRenewal(why); until.After(now) {
		return Start{Again: until, Held: i.tooOften(until)}
	}
	if held := s.overwritten(why, now); !held.None() {
		return Start{Again: s.repairedUntil(why, now), Held: held.Message}
	}
	if until := b.Until(s); until.After(now) {
		return Start{Again: until, Held: fmt.Sprintf(
			"the last issuance failed, the next attempt is at %s: change the spec or renew by hand to try at once", until.UTC().Format(time.RFC3339))}
	}
	return Start{Why: why, Warning: warning}
}

// minRenewal is the shortest time between two certificates if the second one is
// a renewal by time. It is the shortest renewBefore that the API accepts, so it
// delays no reasonable configuration. Without it, a renewBefore as long as the
// certificate's lifetime would cause renewals without end.
const minRenewal = 5 * time.Minute

// minSuggested is minRenewal for renewals that a CA suggests; of certificates
// that live for less than three hours it is a third of their life. A CA that
// always suggests a time in the past, by mistake, is asked for a certificate
// once an hour.
const minSuggested = time.Hour

// nextRenewal returns until when a renewal has to wait. It is zero if nothing
// is known about the last certificate, or it is replaced for another reason.
func (i *inspection) nextRenewal(why Finding) time.Time {
	if why.Reason != ReasonRenewing {
		return time.Time{}
	}
	return i.firstRenewal()
}

// firstRenewal returns the earliest time at which the current certificate may
// be renewed.
func (i *inspection) firstRenewal() time.Time {
	current := i.Current()
	if current == nil {
		return time.Time{}
	}
	return current.CreationTimestamp.Add(i.minRenewal())
}

func (i *inspection) minRenewal() time.Duration {
	if i.suggested().IsZero() {
		return minRenewal
	}
	v := i.validity()
	return max(minRenewal, min(minSuggested, v.NotAfter.Sub(v.NotBefore)/3))
}

// tooOften returns why a renewal has to wait until a time.
func (i *inspection) tooOften(until time.Time) string {
	fix := ": shorten spec.renewBefore, or lengthen spec.duration"
	if !i.suggested().IsZero() {
		fix = ", although the CA suggests to renew it now"
	}
	return fmt.Sprintf("the last certificate was requested less than %v ago, the next one is at %s%s", i.minRenewal(), until.UTC().Format(time.RFC3339), fix)
}

// Backoff defines how long to wait after failed issuances.
type Backoff struct {
	// Min is the wait after the first failure; it doubles with each.
	Min time.Duration
	// Max is the longest wait.
	Max time.Duration
}

// DefaultBackoff returns the default of servers.
func DefaultBackoff() Backoff { return Backoff{Min: time.Hour, Max: 32 * time.Hour} }

// Until returns until when nothing is issued for a Certificate because the last
// attempts have failed; zero if it need not wait. A spec that has been changed
// since then has not failed yet.
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

// differsFromNext reports whether the Certificate's current spec differs from
// the request that has failed. If there was none, or it was deleted, any change
// of the spec since the failure counts.
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

// SetIssuing starts an issuance in the status of crt. Times in the API are whole
// seconds: a request that is answered in this second must not seem to be older.
func SetIssuing(crt *cmv1.Certificate, why Finding, now time.Time) {
	certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, why.Reason, why.Message, metav1.NewTime(now.Truncate(time.Second)))
}

// SetRenewing starts an issuance on request of the operator, regardless of the
// current state and of earlier failures.
func SetRenewing(crt *cmv1.Certificate, now time.Time) {
	SetIssuing(crt, Finding{Reason: ReasonManuallyTriggered, Message: messageManuallyTriggered}, now)
}
