package acmeserver

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// finalize takes the certificate request of an order (RFC 8555 section 7.4), and waits
// a while for the certificate.
func (s *orders) finalize(c *call) (*answer, error) {
	csr, err := readCSR(c)
	if err != nil {
		return nil, err
	}
	wait := s.finishing.expect(client.ObjectKey{Namespace: c.account.Spec.ServiceAccount.Namespace, Name: c.args[0]})
	period := c.endpoint.Spec().Approval.FinalizeWait.Duration
	o, err := s.storeFinalized(c, csr)
	if err != nil || hasEnded(o) {
		period = 0
	}
	if wait(c.r.Context(), period) && period > 0 {
		// The cached order has ended; the answer needs the stored one.
		o, err = s.store.ownOrder(c)
	}
	if err != nil {
		return nil, err
	}
	return s.orderAnswer(c, o), nil
}

// storeFinalized stores the order as processing, or with its end.
func (s *orders) storeFinalized(c *call, csr []byte) (*v1alpha1.AcmeOrder, error) {
	issuing, err := s.atOnce.begin(c.ctx, c.args[0])
	if err != nil {
		return nil, err
	}
	defer issuing.end()
	o, err := s.store.changeOwnOrder(c, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		issuing.tell = nil
		status, err := s.admitFinalize(c, o, csr)
		s.events.refusedBy(o, "Finalize", err)
		if status != nil && err == nil {
			status = issuing.status(o, status)
		}
		return status, err
	})
	if err == nil {
		issuing.stored()
	}
	return o, err
}

func readCSR(c *call) ([]byte, error) {
	var asked struct {
		CSR string `json:"csr"`
	}
	if p := c.message.Decode(&asked); p != nil {
		return nil, p
	}
	csr, err := c.decode(asked.CSR)
	if err != nil || len(csr) == 0 {
		return nil, problem(http.StatusBadRequest, rfc8555.ProblemBadCSR, "csr is not the base64url encoding, without padding, of a certificate request in DER")
	}
	return csr, nil
}

// signerOf returns the facts about the signer of a profile, which is nil if it is gone.
func (s *orders) signerOf(c *call, profile *v1alpha1.AcmeProfile) (acmeorder.SignerFacts, error) {
	if s.signer == nil || profile == nil {
		return acmeorder.SignerFacts{}, nil
	}
	return s.signer(c.ctx, profile, c.account.Spec.ServiceAccount.Namespace)
}

// admitFinalize asks everything once more that may have changed since the order was
// made.
func (s *orders) admitFinalize(c *call, o *v1alpha1.AcmeOrder, csr []byte) (*v1alpha1.AcmeOrderStatus, error) {
	renewed, err := s.renewedEnd(c, o)
	if err != nil {
		return nil, err
	}
	signer, err := s.signerOf(c, c.endpoint.Profile(o.Spec.Profile))
	if err != nil {
		return nil, err
	}
	var failed error
	d, p := c.endpoint.AdmitFinalize(acmeorder.Finalization{
		Order: o, CSR: csr, Account: c.facts, Keys: s.store.keyFacts(c.ctx, c.endpointName, &failed),
		Help: c.helpURL(c.account.Name), Renewed: renewed, Signer: signer,
	}, c.now)
	switch {
	case failed != nil:
		return nil, failed
	case p != nil || d.Again:
		return d.Status, asError(p)
	}
	if err := s.reviews.demandUse(c.ctx, c.account.Spec.ServiceAccount, c.endpointName); err != nil {
		return nil, err
	}
	if err := s.reviews.demandCreate(c.ctx, c.account.Spec.ServiceAccount, c.endpoint.Profile(o.Spec.Profile)); err != nil {
		return nil, err
	}
	// The order stays ready: the client can ask for something else.
	planned := acmeorder.Planned{Order: o.DeepCopy(), Account: c.account, Profile: c.endpoint.Profile(o.Spec.Profile)}
	planned.Order.Status = *d.Status
	if p := s.refusedByPolicy(c, planned); p != nil {
		return nil, p
	}
	return d.Status, nil
}
