package credential

import (
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/process/backoff"
)

const (
	// maxJitter spreads the refreshes of a fleet, as kubelets do, and the times
	// at which requests are abandoned.
	maxJitter = 5 * time.Minute
	// abandonAfter is how long a request may not be seen before it is
	// abandoned.
	abandonAfter = 10 * time.Minute
	// minAge is the least time between getting a certificate and asking for the
	// next one. A clock that is wrong by days would make every certificate due
	// immediately.
	minAge = 5 * time.Minute
)

// Seen is the observed state of a pending request.
type Seen struct {
	// Request is the request that the server has; nil if the agent does not see
	// it.
	Request *certificatesv1.PodCertificateRequest
	// Gone reports that the server certainly no longer has the request.
	Gone bool
}

// Action is the next action.
type Action int

// The actions.
const (
	// Wait for Decision.Wake or for a change of the request.
	Wait Action = iota
	// Ask: create a new key and a request, and send the request.
	CreateRequest
	// Send the pending request, perhaps for the second time.
	Send
)

// Event is something that the operator should know.
type Event struct {
	Reason, Message string
}

// The reasons of events, which are kubelet's.
const (
	eventOverdue = "CertificateOverdueForRefresh"
	eventExpired = "CertificateExpired"
)

// Decision is the decision for a record and the observed state.
type Decision struct {
	// Record is the new record. It has to be saved before Action is taken.
	Record Record
	Action Action
	// Wake is when to decide again without an earlier event; zero is never.
	Wake   time.Time
	Events []Event
}

// Decide returns what to do about a certificate for a purpose at a time. It
// changes nothing.
func Decide(r Record, purpose Purpose, seen Seen, now time.Time, jitter backoff.Jitter) Decision {
	d := Decision{Record: r.copy()}
	d.forget(purpose)
	d.observe(seen, now, jitter)
	d.act(purpose, now)
	d.report(now)
	return d
}

// forget drops attempts that were for another purpose. The certificate that is
// served stays.
func (d *Decision) forget(purpose Purpose) {
	if d.Record.Pending != nil && d.Record.Pending.For != purpose {
		d.Record.Pending = nil
	}
	if d.Record.Failure != nil && d.Record.Failure.For != purpose {
		d.Record.Failure = nil
	}
}

func (r Record) copy() Record {
	if r.Current != nil {
		current := *r.Current
		current.Reported = slices.Clone(current.Reported)
		r.Current = &current
	}
	if r.Pending != nil {
		pending := *r.Pending
		r.Pending = &pending
	}
	if r.Failure != nil {
		failure := *r.Failure
		r.Failure = &failure
	}
	return r
}

// observe updates the record with the state of the pending request.
func (d *Decision) observe(seen Seen, now time.Time, jitter backoff.Jitter) {
	pending := d.Record.Pending
	if pending == nil {
		return
	}
	if seen.Request != nil {
		d.answered(seen.Request, now, jitter)
		return
	}
	if sent := !pending.SentAt.IsZero(); sent && (seen.Gone || now.After(pending.AbandonAt)) {
		d.fail(Failure{Kind: Unanswered, Message: fmt.Sprintf("request %s was deleted before a signer answered it", pending.Name)}, now, jitter)
	}
}

// answered evaluates a request that the server has. The first answer counts, as
// a second one is impossible.
func (d *Decision) answered(request *certificatesv1.PodCertificateRequest, now time.Time, jitter backoff.Jitter) {
	if d.Record.Pending.SentAt.IsZero() { // it was sent, but its answer was lost
		d.Record = d.Record.Sent(now, jitter)
	}
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied:
			d.refused(Denied, request, condition.Reason, condition.Message, now, jitter)
		case certificatesv1.PodCertificateRequestConditionTypeFailed:
			d.refused(Failed, request, condition.Reason, condition.Message, now, jitter)
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			d.issued(request, now, jitter)
		default:
			continue
		}
		return
	}
}

func (d *Decision) refused(kind FailureKind, request *certificatesv1.PodCertificateRequest, reason, message string, now time.Time, jitter backoff.Jitter) {
	d.fail(Failure{Kind: kind, Reason: reason, Message: message}, now, jitter)
	d.Events = append(d.Events, Event{
		Reason:  string(kind),
		Message: fmt.Sprintf("PodCertificateRequest %s/%s: %s: %s", request.Namespace, request.Name, reason, message),
	})
}

func (d *Decision) issued(request *certificatesv1.PodCertificateRequest, now time.Time, jitter backoff.Jitter) {
	current, err := d.Record.Pending.credential(&request.Status)
	if err != nil {
		message := fmt.Sprintf("request %s: %v", request.Name, err)
		d.fail(Failure{Kind: Unusable, Message: message}, now, jitter)
		d.Events = append(d.Events, Event{Reason: string(Unusable), Message: message})
		return
	}
	spread := min(maxJitter, current.NotAfter.Sub(current.RefreshAt)/4)
	if spread > 0 {
		current.RefreshAt = current.RefreshAt.Add(jitter(spread))
	}
	if soonest := now.Add(minAge); current.RefreshAt.Before(soonest) {
		current.RefreshAt = soonest
	}
	d.Record.Current, d.Record.Pending, d.Record.Failure = current, nil, nil
}

// fail ends the pending request. The certificate that is served stays.
func (d *Decision) fail(f Failure, now time.Time, jitter backoff.Jitter) {
	f.For = d.Record.Pending.For
	d.Record.Pending = nil
	d.Record.Failure = f.following(d.Record.Failure, now, jitter)
}

// act decides what to do next, with the request observed.
func (d *Decision) act(purpose Purpose, now time.Time) {
	r := d.Record
	retryAt := time.Time{}
	if r.Failure != nil {
		retryAt = r.Failure.RetryAt
	}
	switch {
	case r.Pending != nil && !r.Pending.SentAt.IsZero():
		d.Wake = r.Pending.AbandonAt
	case r.Pending == nil && r.Current.serves(purpose, now):
		d.Wake = r.Current.RefreshAt
	case now.Before(retryAt):
		d.Wake = retryAt
	case r.Pending != nil:
		d.Action = Send
	default:
		d.Action = CreateRequest
	}
}

// serves reports whether the credential is for the purpose and needs no
// successor yet.
func (c *Credential) serves(purpose Purpose, now time.Time) bool {
	return c != nil && c.For == purpose && now.Before(c.RefreshAt)
}

// report adds an event, once for each credential, when the credential is
// overdue or has expired.
func (d *Decision) report(now time.Time) {
	c := d.Record.Current
	if c == nil {
		return
	}
	for _, deadline := range []struct {
		at              time.Time
		reason, message string
	}{
		{c.RefreshAt.Add(overdueAfter), eventOverdue, "the certificate should have been refreshed at " + c.RefreshAt.UTC().Format(time.RFC3339)},
		{c.NotAfter, eventExpired, "the certificate has expired at " + c.NotAfter.UTC().Format(time.RFC3339)},
	} {
		switch {
		case slices.Contains(c.Reported, deadline.reason):
		case now.After(deadline.at):
			c.Reported = append(c.Reported, deadline.reason)
			d.Events = append(d.Events, Event{Reason: deadline.reason, Message: deadline.message})
		default:
			d.wakeBy(deadline.at.Add(time.Second))
		}
	}
}

func (d *Decision) wakeBy(t time.Time) {
	if d.Wake.IsZero() || t.Before(d.Wake) {
		d.Wake = t
	}
}
