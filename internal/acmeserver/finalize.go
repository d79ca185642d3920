package acmeserver

import (
	"errors"
	"net/http"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// finalize takes the certificate request of an order (RFC 8555 section 7.4), and waits
// a while for the certificate.
func (x *exchange) finalize() (*answer, error) {
	csr, err := x.readCSR()
	if err != nil {
		return nil, err
	}
	o, err := x.ownOrder()
	if err != nil {
		return nil, err
	}
	wait := x.finishing.expect(client.ObjectKeyFromObject(o))
	period := x.endpoint.Spec().Approval.FinalizeWait.Duration
	o, err = x.store.changeOrder(x.ctx, x.ownOrder, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		again, p := acmeorder.FinalizeAgain(o, csr, x.now)
		if p != nil || again {
			return nil, asError(p)
		}
		if err := x.checkFinalize(o, csr); err != nil {
			if p := new(rfc8555.Problem); errors.As(err, &p) {
				x.refused(o, "Finalize", p)
			}
			return nil, err
		}
		return acmeorder.Finalize(o, csr, x.endpoint.Spec().Orders.ProcessingFor.Duration, x.now), nil
	})
	if err != nil || hasEnded(o) {
		period = 0
	}
	if wait(x.r.Context(), period) && period > 0 {
		// The cache knows of the end; what is answered is what is stored.
		o, err = x.ownOrder()
	}
	if err != nil {
		return nil, err
	}
	return x.orderAnswer(o), nil
}

func (x *exchange) readCSR() ([]byte, error) {
	var asked struct {
		CSR string `json:"csr"`
	}
	if p := x.message.Decode(&asked); p != nil {
		return nil, p
	}
	csr, err := x.decode(asked.CSR)
	if err != nil || len(csr) == 0 {
		return nil, problem(http.StatusBadRequest, rfc8555.ProblemBadCSR, "csr is not the base64url encoding, without padding, of a certificate request in DER")
	}
	return csr, nil
}

// decode decodes base64url of a payload.
func (x *exchange) decode(text string) ([]byte, error) {
	return jws.DecodeBase64URL(text, slices.Contains(x.endpoint.Spec().Tolerate, v1alpha1.AcmeToleratePaddedBase64))
}

// checkFinalize asks everything once more that may have changed since the order was
// made.
func (x *exchange) checkFinalize(o *v1alpha1.AcmeOrder, csr []byte) error {
	profile := x.endpoint.Profile(o.Spec.Profile)
	if profile == nil {
		return x.withdraw(o, rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemInvalidProfile, "there is no profile %s anymore", rfc8555.Quote(o.Spec.Profile)))
	}
	if p := x.facts.Waiting(x.endpoint.Spec(), x.helpURL(x.account.Name)); p != nil {
		return p
	}
	renewed, err := x.renewedEnd(o)
	if err != nil {
		return err
	}
	if p := x.facts.Terms(x.endpoint.Spec(), renewed, x.now); p != nil {
		return p
	}
	var failed error
	if _, p := acmeorder.CheckCSR(o, csr, profile, x.endpoint.Spec().Tolerate, x.store.keyFacts(x.ctx, x.endpointName, &failed)); p != nil || failed != nil {
		if failed != nil {
			return failed
		}
		return p
	}
	if p := x.endpoint.CheckAgain(o, x.facts, x.now); p != nil {
		return x.withdraw(o, p)
	}
	if _, p := acmeorder.Lifetime(o, profile, x.now); p != nil {
		return p
	}
	if err := x.demandUse(x.account.Spec.ServiceAccount); err != nil {
		return err
	}
	return x.demandCreate(x.account.Spec.ServiceAccount, profile)
}

// withdraw ends an order that cannot be finalized anymore.
func (x *exchange) withdraw(o *v1alpha1.AcmeOrder, p *rfc8555.Problem) error {
	read := func() (*v1alpha1.AcmeOrder, error) { return x.store.order(x.ctx, o.Namespace, o.Name) }
	_, err := x.store.changeOrder(x.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		return acmeorder.Cancel(o, p, x.now), nil
	})
	return errors.Join(err, p)
}
