package acmeorder

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxCarried is how many later orders the approval of one can count for.
const maxCarried = 5

// Terms returns what the order proves about a request, to be sealed with the approval
// of a person; nil if it proves nothing, or its endpoint carries no approvals over.
func (p Proof) Terms(r request.Request, now time.Time) *request.OrderTerms {
	if p.Endpoint == nil || p.Endpoint.Spec().Approval.CarryOver.Duration <= 0 || p.Of(r, now) == nil {
		return nil
	}
	return termsOf(p.Order, p.Account.Account, r)
}

func termsOf(o *order, account *v1alpha1.AcmeAccount, r request.Request) *request.OrderTerms {
	t := &request.OrderTerms{
		Namespace: o.Namespace, Order: o.Name, Endpoint: o.Spec.Endpoint, Profile: o.Spec.Profile, Account: o.Spec.Account,
		AccountKey: account.Status.Key, Identifiers: o.Spec.Identifiers,
	}
	t.Ask(r)
	return t
}

// CarryOver returns the order whose approval by a person may count for an order that
// waits: the one that was approved last; nil if there is none. others are the orders of
// the same account. Only the seal of the approval proves their content: see Carried.
func CarryOver(o *v1alpha1.AcmeOrder, others []*v1alpha1.AcmeOrder, e *v1alpha1.AcmeEndpointSpec, now time.Time) *v1alpha1.AcmeOrder {
	period := e.Approval.CarryOver.Duration
	if period <= 0 || OrderState(o, now) != rfc8555.StateProcessing || o.Status.CarryFrom != "" {
		return nil
	}
	var last *order
	for _, other := range others {
		if CanCarry(other, o) && now.Sub(other.Status.Approval.Time.Time) <= period && (last == nil || last.Status.Approval.Time.Before(&other.Status.Approval.Time)) {
			last = other
		}
	}
	return last
}

// CanCarry reports whether a person has approved from, whether that approval may count for
// the later order to, and whether it has counted for fewer than maxCarried orders so far.
func CanCarry(from, to *v1alpha1.AcmeOrder) bool {
	approval := from.Status.Approval
	switch {
	case approval == nil, approval.By == "", approval.Sealed == "", approval.CarriedFrom != "", approval.Denied != nil:
		return false
	case from.Name == to.Name || !sameTerms(from, to) || !isSubset(to, from) || isEarlier(to, from):
		return false
	case from.Status.Certificate != nil && from.Status.Certificate.Revoked != nil:
		return false
	}
	return len(approval.CarriedTo) < maxCarried
}

func sameTerms(a, b *order) bool {
	return a.Spec.Account == b.Spec.Account && a.Spec.Endpoint == b.Spec.Endpoint && a.Spec.Profile == b.Spec.Profile && a.Namespace == b.Namespace
}

// isSubset reports whether a is for no more than b.
func isSubset(a, b *order) bool {
	return sets.New(b.Spec.Identifiers...).HasAll(a.Spec.Identifiers...)
}

// isEarlier reports whether a was finalized before b.
func isEarlier(a, b *order) bool {
	return a.Status.Finalized != nil && b.Status.Finalized != nil && a.Status.Finalized.Before(b.Status.Finalized)
}

// CountCarried counts an order among those that an approval counts for, before it
// does; nil if it counts for too many. An order that is counted already costs nothing.
func CountCarried(from, to *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
	s := from.Status.DeepCopy()
	if s.Approval != nil && slices.Contains(s.Approval.CarriedTo, to.Name) {
		return s
	}
	if !CanCarry(from, to) {
		return nil
	}
	s.Approval.CarriedTo = append(s.Approval.CarriedTo, to.Name)
	return s
}

// SealedApprovals returns the sealed records of the approvals of an order.
func SealedApprovals(o *v1alpha1.AcmeOrder) []string {
	if o.Status.Approval == nil || o.Status.Approval.Sealed == "" {
		return nil
	}
	return append([]string{o.Status.Approval.Sealed}, o.Status.Approval.SealedOthers...)
}

// CarryFrom records which order's approval is to count for this one.
func CarryFrom(o, from *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
	s := o.Status.DeepCopy()
	s.CarryFrom = from.Name
	return s
}

// EndCarrying records that a request of the account was denied: the approval of an
// earlier order does not count for later ones anymore. It returns nil if it does not
// anyway.
func EndCarrying(from, denied *v1alpha1.AcmeOrder, now time.Time) *v1alpha1.AcmeOrderStatus {
	approval := from.Status.Approval
	if from.Name == denied.Name || !sameTerms(from, denied) || approval == nil || approval.Sealed == "" || approval.Denied != nil {
		return nil
	}
	s := from.Status.DeepCopy()
	s.Approval.Denied = whole(now)
	return s
}

// Carried is an approval that is to count for a later order.
type Carried struct {
	// From is the order that was approved, as the API has it.
	From *v1alpha1.AcmeOrder
	// Terms and Time are sealed: what was approved, and when.
	Terms *request.OrderTerms
	Time  time.Time
}

// Check reports why the approval does not count for the request of an order that
// Approval.Check lets pass. Of the order that was approved, what is not sealed can only
// make it count less.
func (c Carried) Check(a Approval, now time.Time) error {
	to, period := a.Order, a.Endpoint.Spec().Approval.CarryOver.Duration
	approval := c.From.Status.Approval
	switch {
	case period <= 0:
		return errors.New("the endpoint carries no approvals over")
	case c.Terms == nil || c.Terms.Order != c.From.Name || c.Terms.Namespace != c.From.Namespace || c.From.Name == to.Name:
		return errors.New("the approval does not belong to an earlier order")
	case approval == nil || !slices.Contains(approval.CarriedTo[:min(maxCarried, len(approval.CarriedTo))], to.Name):
		return errors.New("the approval does not count for this order")
	case approval.Denied != nil:
		return errors.New("a request of the account was denied since")
	case now.Sub(c.Time) > period:
		return fmt.Errorf("the approval is older than %v", period)
	case isEarlier(to, c.From):
		return errors.New("the approval is of a later order")
	case !c.Terms.Cover(termsOf(to, a.Account.Account, a.Request)):
		return errors.New("the order is not for the same account, key, names, usages or lifetime as the approved one")
	}
	return nil
}

// IsSupersededBy returns the later order of an account that is approved, and for which
// an order that still waits for its approval asks for no more; nil if there is none. The
// client has given the earlier one up.
func IsSupersededBy(o *v1alpha1.AcmeOrder, others []*v1alpha1.AcmeOrder, e *v1alpha1.AcmeEndpointSpec, now time.Time) *v1alpha1.AcmeOrder {
	if e.Approval.CarryOver.Duration <= 0 {
		return nil
	}
	for _, other := range others {
		if Supersedes(other, o, now) {
			return other
		}
	}
	return nil
}

// Supersedes reports whether the order by is approved, while o, an earlier order without
// further names, waits for its approval.
func Supersedes(by, o *v1alpha1.AcmeOrder, now time.Time) bool {
	return by.Name != o.Name && sameTerms(by, o) && isSubset(o, by) && isEarlier(o, by) && by.Status.Approval != nil &&
		o.Status.Approval == nil && o.Status.CarryFrom == "" && OrderState(o, now) == rfc8555.StateProcessing
}

// Supersede records that a later order is approved.
func Supersede(o, by *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrderStatus {
	if o.Status.SupersededBy != "" {
		return nil
	}
	s := o.Status.DeepCopy()
	s.SupersededBy = by.Name
	return s
}

// EndsCarrying reports whether the reason of a denial shows that the certificate was
// refused. A request that a later one superseded was not refused.
func EndsCarrying(reason string) bool {
	return reason != ReasonSuperseded && reason != ReasonOrderEnded
}
