package webhook

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Order is a certificate whose content is decided already. It is for declared
// signers, for which the profile in their Signer object decides.
type Order struct {
	// Request is the request, which the endpoint gets too.
	Request request.Request
	// Template contains the key, the subject, the names and the usages.
	Template *x509.Certificate
	// Duration is how long the certificate may be valid.
	Duration time.Duration
	// Pod is the pod that the certificate is for, or nil.
	Pod *v1alpha1.Pod
}

// Endpoint is an HTTPS endpoint that carries out orders. It is safe for
// concurrent use.
type Endpoint struct{ endpoint *endpoint }

// NewEndpoint returns an endpoint. Unusable credentials are reported here and
// not with the first request.
func NewEndpoint(cfg Config) (*Endpoint, error) {
	e, err := newEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &Endpoint{endpoint: e}, nil
}

// Issue sends an order to the endpoint. Its errors are the same as for signer.Sign.
func (e *Endpoint) Issue(ctx context.Context, order Order, now time.Time) (*signer.Issued, error) {
	asked := newRequest(order.Request, order.Duration)
	asked.Certificate, asked.Pod = order.content(), order.Pod
	return e.endpoint.callUntilVerdict(ctx, asked, order.wanted(), now)
}

func (o Order) content() *v1alpha1.Certificate {
	content := &v1alpha1.Certificate{Subject: o.Template.RawSubject, DNSNames: o.Template.DNSNames, EmailAddresses: o.Template.EmailAddresses}
	for _, ip := range o.Template.IPAddresses {
		content.IPAddresses = append(content.IPAddresses, ip.String())
	}
	for _, uri := range o.Template.URIs {
		content.URIs = append(content.URIs, uri.String())
	}
	return content
}

// wanted returns the requirements for the answer: exactly the content of the
// order.
func (o Order) wanted() wanted {
	t := o.Template
	return wanted{uid: o.Request.UID, Wanted: pki.Wanted{
		Key: t.PublicKey, CA: t.KeyUsage&x509.KeyUsageCertSign != 0, Life: &o.Duration,
		Usages: &pki.Usages{Key: t.KeyUsage, Extended: t.ExtKeyUsage},
		Names: &x509.CertificateRequest{
			Subject: t.Subject, DNSNames: t.DNSNames, IPAddresses: t.IPAddresses, URIs: t.URIs, EmailAddresses: t.EmailAddresses,
		},
	}}
}
