package acmeorder

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// How long what is over is kept.
const (
	keepInvalid  = 24 * time.Hour // invalid orders
	keepDetails  = 24 * time.Hour // what led to a certificate
	keepRecord   = 24 * time.Hour // of a certificate, after its end
	keepUnused   = 30 * 24 * time.Hour
	keepEnded    = 30 * 24 * time.Hour
	keepIdle     = 365 * 24 * time.Hour
	keepEndedKey = 365 * 24 * time.Hour
)

// Retention is the decision what to do with an object now, and when to decide again.
type Retention struct {
	// Delete: the object is deleted.
	Delete bool
	// Status, if not nil, is the status to store: the order has ended, or its status was
	// reduced.
	Status *v1alpha1.AcmeOrderStatus
	// Final is set if Status is not reduced further later. Then metadata.managedFields of
	// the order can be removed as well.
	Final bool
	// Again is when the decision changes with time; zero if never.
	Again time.Time
}

// RetainOrder decides about an order. orders are the settings of its endpoint.
func RetainOrder(o *v1alpha1.AcmeOrder, orders v1alpha1.AcmeOrders, now time.Time) Retention {
	if s := Expire(o, now); s != nil {
		return Retention{Status: s}
	}
	s := &o.Status
	ended := o.CreationTimestamp.Time
	if s.Ended != nil {
		ended = s.Ended.Time
	}
	switch s.State {
	case v1alpha1.AcmeOrderInvalid:
		until := ended.Add(keepInvalid)
		if s.Certificate != nil {
			return retainIssued(o, ended, pki.Later(until, s.Certificate.NotAfter.Add(keepRecord)), orders, now)
		}
		return deleteAt(until, now)
	case v1alpha1.AcmeOrderValid:
		if s.Certificate == nil {
			return deleteAt(ended.Add(keepInvalid), now)
		}
		return retainIssued(o, ended, s.Certificate.NotAfter.Add(keepRecord), orders, now)
	}
	return Retention{Again: nextExpiry(o)}
}

func deleteAt(until, now time.Time) Retention {
	if now.Before(until) {
		return Retention{Again: until}
	}
	return Retention{Delete: true}
}

// nextExpiry returns when an open order ends by the time alone.
func nextExpiry(o *v1alpha1.AcmeOrder) time.Time {
	var next time.Time
	soonest := func(t *metav1.Time) {
		if t != nil && (next.IsZero() || t.Add(Lateness).Before(next)) {
			next = t.Add(Lateness)
		}
	}
	soonest(o.Status.Expires)
	if o.Status.State == v1alpha1.AcmeOrderOpen {
		for i := range o.Status.Authorizations {
			soonest(o.Status.Authorizations[i].Expires)
		}
	}
	return next
}

// retainIssued decides about an order with a certificate, which is deleted at a time.
func retainIssued(o *v1alpha1.AcmeOrder, ended, until time.Time, orders v1alpha1.AcmeOrders, now time.Time) Retention {
	r := deleteAt(until, now)
	if r.Delete {
		return r
	}
	details, chain := ended.Add(keepDetails), ended.Add(orders.ChainFor.Duration)
	s := o.Status.DeepCopy()
	if len(s.CSR) > 0 || hasDetails(s) {
		if now.Before(details) {
			r.Again = pki.Earlier(r.Again, details)
		} else {
			dropDetails(s)
			r.Status = s
		}
	}
	if s.Certificate.Chain != "" || s.State == v1alpha1.AcmeOrderValid && len(s.Conditions) > 0 {
		if now.Before(chain) {
			r.Again = pki.Earlier(r.Again, chain)
		} else {
			dropChain(s)
			r.Status, r.Final = s, true
		}
	}
	return r
}

// dropChain keeps only the fields that revocation, renewal information and the list of
// certificates need. The conditions of a valid order contain nothing beyond its state.
func dropChain(s *v1alpha1.AcmeOrderStatus) {
	s.Certificate.Chain, s.Certificate.Alternates = "", nil
	if s.State == v1alpha1.AcmeOrderValid {
		s.Conditions = nil
	}
	if s.Request != nil {
		s.Request.Named = nil
	}
}

func hasDetails(s *v1alpha1.AcmeOrderStatus) bool {
	if s.TokenSeed != "" {
		return true
	}
	for i := range s.Authorizations {
		for _, c := range s.Authorizations[i].Challenges {
			if c.Token != "" || c.Record != nil || c.State != rfc8555.StateValid {
				return true
			}
		}
	}
	return false
}

// dropDetails removes details from the status. It keeps what was proven, by which type of
// challenge, and when, because authorizations can be reused.
func dropDetails(s *v1alpha1.AcmeOrderStatus) {
	s.CSR, s.TokenSeed = nil, ""
	for i := range s.Authorizations {
		a := &s.Authorizations[i]
		var met []v1alpha1.AcmeChallenge
		for _, c := range a.Challenges {
			if c.State == rfc8555.StateValid {
				met = append(met, v1alpha1.AcmeChallenge{Type: c.Type, State: c.State, Validated: c.Validated})
			}
		}
		a.Challenges = met
	}
}

// AccountUse holds the facts about an account that its cleanup depends on.
type AccountUse struct {
	// Ended is set if the account is not in force.
	Ended bool
	// Live is the end of the last certificate of its orders, zero if there is none.
	Live time.Time
	// Open is set if it has orders that are not valid or invalid.
	Open bool
}

// RetainAccount decides about an account. Idle ones are deleted, never revoked:
// their clients register again by themselves.
func RetainAccount(a *v1alpha1.AcmeAccount, use AccountUse, now time.Time) Retention {
	seen := a.CreationTimestamp.Time
	if a.Status.LastSeen != nil {
		seen = pki.Later(seen, a.Status.LastSeen.Time)
	}
	until := seen.Add(keepIdle)
	switch {
	case use.Ended && a.Status.Ended != nil:
		until = a.Status.Ended.Add(keepEnded)
	case use.Ended:
		until = seen.Add(keepIdle)
	case !a.Status.Ordered && !use.Open && use.Live.IsZero():
		until = pki.Later(a.CreationTimestamp.Time, seen).Add(keepUnused)
	}
	if !use.Live.IsZero() {
		until = pki.Later(until, use.Live.Add(keepRecord))
	}
	if use.Open && !now.Before(until) {
		return Retention{Again: now.Add(keepDetails)}
	}
	return deleteAt(until, now)
}

// KeyRetention is the decision about an account key whose account is deleted or was never
// created.
type KeyRetention struct {
	Delete, Retire bool
	Again          time.Time
}

// RetainKey decides about an account key. deactivated is set if its account, which
// is about to be deleted, was deactivated or revoked: its keys are refused for
// another year. Keys of accounts that exist are kept.
func RetainKey(k *v1alpha1.AcmeAccountKey, accountExists, deactivated bool, now time.Time) KeyRetention {
	switch {
	case deactivated && k.Spec.Retired == nil:
		return KeyRetention{Retire: true}
	case accountExists:
		return KeyRetention{}
	case k.Spec.Retired != nil:
		r := deleteAt(k.Spec.Retired.Add(keepEndedKey), now)
		return KeyRetention{Delete: r.Delete, Again: r.Again}
	}
	r := deleteAt(k.CreationTimestamp.Add(settledAfter), now)
	return KeyRetention{Delete: r.Delete, Again: r.Again}
}

// day returns the day of a time: how exactly it is stored when an account was last
// seen.
func day(t time.Time) *metav1.Time { return &metav1.Time{Time: t.UTC().Truncate(24 * time.Hour)} }

// Seen returns the changed status of an account whose client has sent a request;
// nil if that was known.
func Seen(a *v1alpha1.AcmeAccount, now time.Time) *v1alpha1.AcmeAccountStatus {
	if today := day(now); a.Status.LastSeen == nil || a.Status.LastSeen.Before(today) {
		s := a.Status.DeepCopy()
		s.LastSeen = today
		return s
	}
	return nil
}
