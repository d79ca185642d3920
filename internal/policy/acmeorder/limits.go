package acmeorder

import (
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// soon is when a client that has too many open orders should come back: when it
// ends one of them is its own affair.
const soon = time.Minute

// CheckOrderLimits returns the problem of an account that has too many orders.
// Orders that replace a certificate are not counted by the hour.
func CheckOrderLimits(e *v1alpha1.AcmeEndpointSpec, orders []*v1alpha1.AcmeOrder, replaces bool, now time.Time) *rfc8555.Problem {
	var open, waiting int
	var firstExpiry time.Time
	for _, o := range orders {
		switch OrderState(o, now) {
		case rfc8555.StatePending, rfc8555.StateReady:
			open++
			if o.Status.Expires != nil && (firstExpiry.IsZero() || o.Status.Expires.Time.Before(firstExpiry)) {
				firstExpiry = o.Status.Expires.Time
			}
		case rfc8555.StateProcessing:
			if o.Status.Approval == nil {
				waiting++
			}
		}
	}
	limits := &e.Limits
	switch {
	case open >= int(limits.PendingOrdersPerAccount):
		return limited(until(firstExpiry.Add(Lateness), now), "the account has %d orders that are not finalized, and may have %d (pendingOrdersPerAccount): finalize them or let them expire", open, limits.PendingOrdersPerAccount)
	case waiting >= int(limits.WaitingOrdersPerAccount):
		return limited(now.Add(soon), "%d orders of the account wait for their approval, and %d may (waitingOrdersPerAccount)", waiting, limits.WaitingOrdersPerAccount)
	case replaces:
		return nil
	}
	var made []time.Time
	for _, o := range orders {
		if o.Spec.Replaces == "" {
			made = append(made, o.CreationTimestamp.Time)
		}
	}
	if at, over := windowEnds(made, int(limits.OrdersPerAccountPerHour), time.Hour, now); over {
		return limited(at, "the account has made %d orders in an hour (ordersPerAccountPerHour)", limits.OrdersPerAccountPerHour)
	}
	return nil
}

// until returns a time that is not in the past, for the header Retry-After.
func until(t, now time.Time) time.Time {
	if t.Before(now.Add(time.Second)) {
		return now.Add(time.Second)
	}
	return t
}

// windowEnds reports whether at least most of the events are within the last
// period, and when one more may happen.
func windowEnds(events []time.Time, most int, period time.Duration, now time.Time) (time.Time, bool) {
	recent := slices.DeleteFunc(slices.Clone(events), func(t time.Time) bool { return now.Sub(t) >= period })
	if len(recent) < most || most <= 0 {
		return time.Time{}, false
	}
	slices.SortFunc(recent, time.Time.Compare)
	return until(recent[len(recent)-most].Add(period), now), true
}

// CheckFailedValidations returns the problem of an account whose challenges for one
// of the identifiers fail too often.
func CheckFailedValidations(e *v1alpha1.AcmeEndpointSpec, orders []*v1alpha1.AcmeOrder, ids []rfc8555.Identifier, now time.Time) *rfc8555.Problem {
	failed := map[rfc8555.Identifier][]time.Time{}
	for _, o := range orders {
		if o.Status.Ended == nil || now.Sub(o.Status.Ended.Time) >= time.Hour {
			continue
		}
		for i := range o.Status.Authorizations {
			if a := &o.Status.Authorizations[i]; a.State == rfc8555.StateInvalid {
				id := OrderedIdentifier(a)
				failed[id] = append(failed[id], o.Status.Ended.Time)
			}
		}
	}
	for _, id := range ids {
		if at, over := windowEnds(failed[id], int(e.Limits.FailedValidationsPerHour), time.Hour, now); over {
			return limited(at, "%d challenges for %s have failed in an hour (failedValidationsPerHour)", len(failed[id]), rfc8555.Quote(id.Value))
		}
	}
	return nil
}

// CheckAccountLimit returns the problem of an endpoint that has reached its limit of
// accounts. It suggests no time to retry, since nothing but a deletion changes that.
func CheckAccountLimit(e *v1alpha1.AcmeEndpointSpec, accounts int, now time.Time) *rfc8555.Problem {
	if accounts < int(e.Limits.MaxAccounts) {
		return nil
	}
	return limited(now.Add(time.Hour), "the endpoint has %d accounts, and may have %d (maxAccounts)", accounts, e.Limits.MaxAccounts)
}
