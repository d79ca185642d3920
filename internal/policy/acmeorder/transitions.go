package acmeorder

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// The functions below are all changes of an order's state (RFC 8555 section
// 7.1.6). Each returns the changed status, or nil if the state of the order does
// not permit the change.

// StartChallenge marks a challenge for validation by the server. A challenge that is not
// pending does not change.
func StartChallenge(o *order, p Position, attempts v1alpha1.AcmeAttempts, now time.Time) *orderStatus {
	a, c := at(&o.Status, p)
	if c == nil || c.State != rfc8555.StatePending || !takesAttempts(o, a, now) {
		return nil
	}
	s := o.Status.DeepCopy()
	_, c = at(s, p)
	c.State = rfc8555.StateProcessing
	c.NextAttempt = whole(now)
	c.Deadline = whole(now.Add(time.Duration(max(1, attempts.Count)) * (attempts.Interval.Duration + attempts.Timeout.Duration)))
	return s
}

func takesAttempts(o *order, a *authorization, now time.Time) bool {
	return OrderState(o, now) == rfc8555.StatePending && AuthorizationState(a, now) == rfc8555.StatePending
}

// Attempt is the outcome of one attempt to validate a challenge.
type Attempt struct {
	// Problem is why it has failed; nil if the challenge is met.
	Problem *rfc8555.Problem
	// Final: further attempts would fail too.
	Final bool
	// Ours: the server itself had a fault. The attempt does not count.
	Ours bool
	// Record is what was seen.
	Record *v1alpha1.AcmeValidationRecord
}

// RecordAttempt records the outcome of an attempt. The last failed one makes the
// authorization and the order invalid; validFor is how long a proof counts.
func RecordAttempt(o *order, p Position, t Attempt, e *v1alpha1.AcmeEndpointSpec, now time.Time) *orderStatus {
	a, c := at(&o.Status, p)
	if c == nil || c.State != rfc8555.StateProcessing || !takesAttempts(o, a, now) {
		return nil
	}
	s := o.Status.DeepCopy()
	a, c = at(s, p)
	if t.Record != nil {
		c.Record = t.Record.DeepCopy()
	}
	if !t.Ours || t.Problem == nil {
		c.Attempts++
	}
	c.NextAttempt = nil
	if t.Problem == nil {
		c.State, c.Error, c.Validated = rfc8555.StateValid, nil, whole(now)
		a.State, a.Expires = rfc8555.StateValid, whole(now.Add(e.Orders.AuthorizationValidFor.Duration))
		return s
	}
	c.Error = Stored(t.Problem)
	last := c.Attempts >= max(1, e.Challenges.Attempts.Count) || c.Deadline != nil && !now.Before(c.Deadline.Time)
	if !last && !t.Final {
		c.NextAttempt = whole(now.Add(e.Challenges.Attempts.Interval.Duration))
		return s
	}
	c.State, a.State = rfc8555.StateInvalid, rfc8555.StateInvalid
	end(s, v1alpha1.AcmeOrderInvalid, failedAuthorization(o, a, t.Problem), now)
	return s
}

func failedAuthorization(o *order, a *authorization, p *rfc8555.Problem) *rfc8555.Problem {
	sub := rfc8555.Subproblem{Type: p.Type, Detail: p.Detail, Identifier: OrderedIdentifier(a)}
	whole := compound([]rfc8555.Subproblem{sub}, len(o.Spec.Identifiers))
	whole.Status = cmp.Or(p.Status, 403)
	whole.Detail = bounded("the authorization for " + rfc8555.Quote(ordered(a)) + " has failed: " + p.Detail)
	return whole
}

// DeactivateAuthorization gives an authorization up (RFC 8555 section 7.5.2). An
// order that is not finalized becomes invalid.
func DeactivateAuthorization(o *order, authorization int, now time.Time) *orderStatus {
	a, _ := at(&o.Status, Position{authorization, -1})
	if a == nil {
		return nil
	}
	switch AuthorizationState(a, now) {
	case rfc8555.StatePending, rfc8555.StateValid:
	default:
		return nil
	}
	s := o.Status.DeepCopy()
	s.Authorizations[authorization].State = rfc8555.StateDeactivated
	if s.State == v1alpha1.AcmeOrderOpen {
		end(s, v1alpha1.AcmeOrderInvalid, rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the authorization for %s was deactivated", rfc8555.Quote(ordered(a))), now)
	}
	return s
}

// DeactivateProof deactivates the authorizations of an order that rest on the same proof
// as a deactivated one: for the same identifier, by a challenge of this or an earlier
// order.
func DeactivateProof(o *order, of *v1alpha1.AcmeAuthorization, now time.Time) *orderStatus {
	changed, latest := false, o
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		if a.Origin == v1alpha1.AcmeOriginPreauthorized || a.State != rfc8555.StateValid || a.Identifier != of.Identifier || a.Wildcard != of.Wildcard {
			continue
		}
		if s := DeactivateAuthorization(latest, i, now); s != nil {
			changed, latest = true, &order{Spec: o.Spec, Status: *s}
		}
	}
	if !changed {
		return nil
	}
	return &latest.Status
}

// Finalize accepts the certificate request of an order that is ready. named is the
// request that will be made for it: its name is stored before. processingFor is how long
// it may wait for its certificate.
func Finalize(o *order, csr []byte, named v1alpha1.AcmeRequestReference, processingFor time.Duration, now time.Time) *orderStatus {
	if OrderState(o, now) != rfc8555.StateReady || len(csr) == 0 {
		return nil
	}
	s := o.Status.DeepCopy()
	s.State, s.CSR = v1alpha1.AcmeOrderProcessing, csr
	s.Finalized, s.Expires = whole(now), whole(now.Add(processingFor))
	named.UID, named.Named = "", whole(now)
	s.Request = &named
	return s
}

// RecordRequest records that the named request was made.
func RecordRequest(o *order, uid types.UID, now time.Time) *orderStatus {
	if o.Status.State != v1alpha1.AcmeOrderProcessing || o.Status.Request == nil || o.Status.Request.UID != "" || uid == "" {
		return nil
	}
	s := o.Status.DeepCopy()
	s.Request.UID = uid
	condition(s, v1alpha1.AcmeOrderRequested, metav1.ConditionTrue, "Created", s.Request.Kind+" "+s.Request.Name+" was created", now)
	return s
}

// RecordApproval records the approver of the request.
func RecordApproval(o *order, by v1alpha1.AcmeOrderApproval, now time.Time) *orderStatus {
	if o.Status.State != v1alpha1.AcmeOrderProcessing || o.Status.Approval != nil {
		return nil
	}
	s := o.Status.DeepCopy()
	s.Approval = &by
	condition(s, v1alpha1.AcmeOrderApproved, metav1.ConditionTrue, "Approved", "the request is approved", now)
	return s
}

// Issue makes the order valid with a certificate that CheckLeaf has returned.
func Issue(o *order, leaf *Leaf, now time.Time) *orderStatus {
	if OrderState(o, now) != rfc8555.StateProcessing || leaf == nil {
		return nil
	}
	s := o.Status.DeepCopy()
	s.Certificate = leaf.record.DeepCopy()
	end(s, v1alpha1.AcmeOrderValid, nil, now)
	return s
}

// Fail makes an order that is processing invalid. revoked, if not nil, is an issued
// certificate that does not match the order: it is recorded and never handed out.
func Fail(o *order, p *rfc8555.Problem, revoked *v1alpha1.AcmeCertificate, now time.Time) *orderStatus {
	if o.Status.State != v1alpha1.AcmeOrderProcessing || p == nil {
		return nil
	}
	s := o.Status.DeepCopy()
	s.Certificate = revoked
	end(s, v1alpha1.AcmeOrderInvalid, p, now)
	return s
}

// Expire stores that an order has become invalid by the time alone.
func Expire(o *order, now time.Time) *orderStatus {
	p := Problem(o, now)
	if p == nil || o.Status.State == v1alpha1.AcmeOrderInvalid {
		return nil
	}
	s := o.Status.DeepCopy()
	end(s, v1alpha1.AcmeOrderInvalid, p, now)
	return s
}

// Cancel ends an order that is not finalized, because its account has ended or its basis
// was withdrawn. Its proofs are revoked. Orders that are processing end without Cancel:
// their certificates are not handed out.
func Cancel(o *order, p *rfc8555.Problem, now time.Time) *orderStatus {
	switch OrderState(o, now) {
	case rfc8555.StatePending, rfc8555.StateReady:
	default:
		return nil
	}
	s := o.Status.DeepCopy()
	for i := range s.Authorizations {
		if a := &s.Authorizations[i]; AuthorizationState(a, now) == rfc8555.StateValid {
			a.State = rfc8555.StateRevoked
		}
	}
	end(s, v1alpha1.AcmeOrderInvalid, p, now)
	return s
}

// end stores the end of an order.
func end(s *orderStatus, state v1alpha1.AcmeOrderState, p *rfc8555.Problem, now time.Time) {
	s.State, s.Error, s.Ended = state, Stored(p), whole(now)
	if state == v1alpha1.AcmeOrderValid {
		condition(s, v1alpha1.AcmeOrderIssued, metav1.ConditionTrue, "Issued", "the certificate can be fetched", now)
		return
	}
	reason, message := "Invalid", "the order is invalid"
	if s.Error != nil {
		reason, message = s.Error.Type, s.Error.Detail
	}
	condition(s, v1alpha1.AcmeOrderIssued, metav1.ConditionFalse, reason, message, now)
}

func condition(s *orderStatus, kind string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *whole(now),
	})
}

// whole returns a time in the precision in which it is stored.
func whole(t time.Time) *metav1.Time { return &metav1.Time{Time: t.UTC().Truncate(time.Second)} }
