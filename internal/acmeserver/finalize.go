package acmeserver

import (
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
	wait := x.finishing.expect(client.ObjectKey{Namespace: x.account.Spec.ServiceAccount.Namespace, Name: x.args[0]})
	period := x.endpoint.Spec().Approval.FinalizeWait.Duration
	o, err := x.store.changeOrder(x.ctx, x.ownOrder, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		status, err := x.admitFinalize(o, csr)
		x.refusedBy(o, "Finalize", err)
		return status, err
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

// signerOf returns what is known of the signer of a profile, which is nil if it is gone.
func (x *exchange) signerOf(profile *v1alpha1.AcmeProfile) (acmeorder.SignerFacts, error) {
	if x.Signer == nil || profile == nil {
		return acmeorder.SignerFacts{}, nil
	}
	return x.Signer(x.ctx, profile, x.account.Spec.ServiceAccount.Namespace)
}

// admitFinalize asks everything once more that may have changed since the order was
// made.
func (x *exchange) admitFinalize(o *v1alpha1.AcmeOrder, csr []byte) (*v1alpha1.AcmeOrderStatus, error) {
	renewed, err := x.renewedEnd(o)
	if err != nil {
		return nil, err
	}
	signer, err := x.signerOf(x.endpoint.Profile(o.Spec.Profile))
	if err != nil {
		return nil, err
	}
	var failed error
	d, p := x.endpoint.AdmitFinalize(acmeorder.Finalization{
		Order: o, CSR: csr, Account: x.facts, Keys: x.store.keyFacts(x.ctx, x.endpointName, &failed),
		Help: x.helpURL(x.account.Name), Renewed: renewed, Signer: signer,
	}, x.now)
	switch {
	case failed != nil:
		return nil, failed
	case p != nil || d.Again:
		return d.Status, asError(p)
	}
	if err := x.demandUse(x.account.Spec.ServiceAccount); err != nil {
		return nil, err
	}
	if err := x.demandCreate(x.account.Spec.ServiceAccount, x.endpoint.Profile(o.Spec.Profile)); err != nil {
		return nil, err
	}
	// The order stays ready: the client can ask for something else.
	planned := acmeorder.Planned{Order: o.DeepCopy(), Account: x.account, Profile: x.endpoint.Profile(o.Spec.Profile)}
	planned.Order.Status = *d.Status
	if p := x.refusedByPolicy(planned); p != nil {
		return nil, p
	}
	return d.Status, nil
}
