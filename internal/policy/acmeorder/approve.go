package acmeorder

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// Approval holds everything that the approver's decision about an order and its request
// depends on. It is read at the time of the decision, so changes since the order was
// finalized count.
type Approval struct {
	Order    *v1alpha1.AcmeOrder
	Request  request.Request
	Endpoint *Endpoint
	Account  AccountFacts
	Keys     KeyFacts
}

// Check reports why the approver must not approve a request, whatever rights the account
// has. Only the order is trusted: any user can create a request with the same labels and
// annotations.
func (a Approval) Check(now time.Time) error {
	o, r := a.Order, a.Order.Status.Request
	profile := a.Endpoint.Profile(o.Spec.Profile)
	switch {
	case r == nil || r.UID == "" || string(r.UID) != a.Request.UID:
		return errors.New("no order names the UID of the request")
	case OrderState(o, now) != rfc8555.StateProcessing:
		return fmt.Errorf("the order is %s", OrderState(o, now))
	case o.Spec.Endpoint != a.Endpoint.Name() || a.Account.Account == nil || o.Spec.Account != a.Account.Account.Name:
		return errors.New("the order is of another endpoint or account")
	case profile == nil:
		return fmt.Errorf("the endpoint has no profile %s anymore", rfc8555.Quote(o.Spec.Profile))
	}
	if p := a.Account.Problem(); p != nil {
		return errors.New(p.Detail)
	}
	if p := a.Account.Waiting(a.Endpoint.Spec(), ""); p != nil {
		return errors.New(p.Detail)
	}
	if err := checkAuthorizations(o, now); err != nil {
		return err
	}
	if p := a.Endpoint.CheckAgain(o, a.Account, now); p != nil {
		return errors.New(p.Detail)
	}
	if _, p := CheckCSR(o, o.Status.CSR, profile, a.Endpoint.Spec().Tolerate, a.Keys, signerOfFinalized); p != nil {
		return errors.New(p.Detail)
	}
	return CheckRequest(o, a.Account.Account, profile, a.Request, a.Account.ServiceAccountUID)
}

// signerOfFinalized: what the signer must not get was refused when the order was
// finalized, and signers refuse it again.
var signerOfFinalized = SignerFacts{TakesNamesOnly: true}

// checkAuthorizations reports whether each identifier of an order is proven now.
func checkAuthorizations(o *order, now time.Time) error {
	if len(o.Status.Authorizations) != len(o.Spec.Identifiers) {
		return errors.New("the order has no authorizations")
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		if id := OrderedIdentifier(a); v1alpha1.AcmeIdentifier(id) != o.Spec.Identifiers[i] {
			return fmt.Errorf("the authorization %d is not for %s", i, rfc8555.Quote(o.Spec.Identifiers[i].Value))
		}
		if state := AuthorizationState(a, now); state != rfc8555.StateValid {
			return fmt.Errorf("the authorization for %s is %s", rfc8555.Quote(ordered(a)), state)
		}
	}
	return nil
}

// ReasonByRight and ReasonCarriedOver are the reasons of the approver's approvals,
// ReasonSuperseded and ReasonOrderEnded of its denials.
const (
	ReasonByRight     = "AutoApproved"
	ReasonCarriedOver = "ApprovalCarriedOver"
	ReasonSuperseded  = "Superseded"
	ReasonOrderEnded  = "OrderEnded"
)

// NeedsNoPerson reports whether the endpoint lets the approver approve requests of
// accounts with the verb autoapprove.
func NeedsNoPerson(e *v1alpha1.AcmeEndpointSpec) bool {
	return e.Approval.Mode == v1alpha1.AcmeApprovalByRight
}

// Deny makes an order invalid whose request was denied.
func Deny(o *order, p *rfc8555.Problem, reason string, now time.Time) *orderStatus {
	s := Fail(o, p, nil, now)
	if s != nil {
		condition(s, v1alpha1.AcmeOrderApproved, metav1.ConditionFalse, conditionReason(reason), "the request was denied", now)
	}
	return s
}

// conditionReason returns a reason in the form that conditions must have; reasons
// of requests can have any.
func conditionReason(reason string) string {
	for _, c := range []byte(reason) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return "Denied"
		}
	}
	if reason == "" || '0' <= reason[0] && reason[0] <= '9' || len(reason) > 256 {
		return "Denied"
	}
	return reason
}
