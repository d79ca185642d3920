//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

package orders

import (
	"context"
	"crypto/x509"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/order"
)

// download writes the certificate into the status.
func (p *pass) download(ctx context.Context) error {
	chain, err := p.preferredChain(ctx)
	if err != nil {
		return err
	}
	csr, err := csrOf(p.was.Spec.Request)
	if err != nil {
		return &endError{fmt.Errorf("Failed to finalize Order: %w", err)}
	}
	if err := order.CheckCertificate(chain, csr, p.Clock.Now()); err != nil {
		return &endError{fmt.Errorf("Invalid certificate retrieved from ACME server: %w", err)}
	}
	p.memory.Succeeded()
	p.now.Status.State, p.now.Status.Certificate = acmev1.Valid, pki.EncodeCertificates(chain...)
	return nil
}

// preferredChain returns the chain that the issuer prefers, otherwise the
// default one.
func (p *pass) preferredChain(ctx context.Context) ([]*x509.Certificate, error) {
	first, others, err := p.chain(ctx, p.memory.Order.Certificate)
	name := p.issuer.GetSpec().ACME.PreferredChain
	if err != nil || name == "" || order.IsPreferred(first, name) {
		return first, err
	}
	for _, url := range others {
		chain, _, err := p.chain(ctx, url)
		if err != nil || order.IsPreferred(chain, name) {
			return chain, err
		}
	}
	return first, nil
}

func (p *pass) chain(ctx context.Context, url string) (chain []*x509.Certificate, others []string, err error) {
	encoded, others, err := p.ca.Certificate(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	for i, der := range encoded {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, &endError{fmt.Errorf("Invalid certificate retrieved from ACME server: parsing certificate %d: %w", i+1, err)}
		}
		chain = append(chain, cert)
	}
	return chain, others, nil
}
