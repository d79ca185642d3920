package acmeorder

import (
	"bytes"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// FinalizeAgain says what becomes of a certificate request for an order, before it
// is checked. A request that the order has is answered with the order: the first
// answer may have been lost. again is set then.
func FinalizeAgain(o *v1alpha1.AcmeOrder, csr []byte, now time.Time) (again bool, p *rfc8555.Problem) {
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
