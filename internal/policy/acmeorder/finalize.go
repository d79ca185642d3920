package acmeorder

import (
	"bytes"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Finalization is a certificate request for an order (RFC 8555 section 7.4).
type Finalization struct {
	Order *v1alpha1.AcmeOrder
	// CSR is its DER.
	CSR     []byte
	Account AccountFacts
	Keys    KeyFacts
	Signer  SignerFacts
	// Help is the URL of a page about accounts that wait for their approval.
	Help string
	// Renewed is the end of the certificate that the order renews, zero if it renews
	// none.
	Renewed time.Time
}

// FinalizeDecision is the outcome of a finalize request.
type FinalizeDecision struct {
	// Again: the order has this request. The client is given the order.
	Again bool
	// Status is the status to store. With a problem, the order has become invalid;
	// otherwise it is processing. It is nil if the order does not change.
	Status *v1alpha1.AcmeOrderStatus
}

// AdmitFinalize decides about a certificate request. What the account may do is
// asked once more: what the order rests on may have been withdrawn since it was
// made, and then the order becomes invalid. A bad request leaves it ready.
func (e *Endpoint) AdmitFinalize(f Finalization, now time.Time) (FinalizeDecision, *rfc8555.Problem) {
	none, o, spec := FinalizeDecision{}, f.Order, e.Spec()
	for _, check := range []func() *rfc8555.Problem{
		f.Account.Problem,
		func() *rfc8555.Problem { return f.Account.Waiting(spec, f.Help) },
		func() *rfc8555.Problem { return f.Account.Terms(spec, f.Renewed, now) },
	} {
		if p := check(); p != nil {
			return none, p
		}
	}
	if again, p := finalizeAgain(o, f.CSR, now); again || p != nil {
		return FinalizeDecision{Again: again}, p
	}
	profile := e.Profile(o.Spec.Profile)
	if profile != nil {
		if _, p := CheckCSR(o, f.CSR, profile, spec.Tolerate, f.Keys, f.Signer); p != nil {
			return none, p
		}
	}
	if p := e.CheckAgain(o, f.Account, now); p != nil {
		return FinalizeDecision{Status: Cancel(o, p, now)}, p
	}
	if _, p := Lifetime(o, profile, now); p != nil {
		return FinalizeDecision{Status: Cancel(o, p, now)}, p
	}
	status := Finalize(o, f.CSR, Reference(o, profile), spec.Orders.ProcessingFor.Duration, now)
	if f.Signer.Refuse != nil && status != nil {
		planned := Planned{Order: o.DeepCopy(), Account: f.Account.Account, Profile: profile}
		planned.Order.Status = *status
		if p := f.Signer.Refuse(planned); p != nil {
			return none, HideReason(p, o, spec)
		}
	}
	return FinalizeDecision{Status: status}, nil
}

// finalizeAgain: a request that the order has is answered with the order, since the
// first answer may have been lost.
func finalizeAgain(o *v1alpha1.AcmeOrder, csr []byte, now time.Time) (again bool, p *rfc8555.Problem) {
	state := OrderState(o, now)
	switch {
	case state == rfc8555.StateReady:
		return false, nil
	case (state == rfc8555.StateProcessing || state == rfc8555.StateValid) && len(csr) > 0 && bytes.Equal(o.Status.CSR, csr):
		return true, nil
	}
	return false, rfc8555.NewProblem(403, rfc8555.ProblemOrderNotReady, "the order is %s, not ready", state)
}

// RetryAfter returns when a client should look at an order that is processing
// again. It is never later than in a minute: clients take more for a fault.
func RetryAfter(o *v1alpha1.AcmeOrder, now time.Time) time.Duration {
	if o.Status.Finalized == nil {
		return 5 * time.Second
	}
	switch waited := now.Sub(o.Status.Finalized.Time); {
	case waited < 10*time.Second:
		return 2 * time.Second
	case waited < time.Minute:
		return 5 * time.Second
	case waited < 10*time.Minute:
		return 15 * time.Second
	}
	return time.Minute
}
