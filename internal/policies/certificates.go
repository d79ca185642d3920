package policies

import (
	"context"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/request"
)

// CertificateRequester is how the requests for Certificates are made.
type CertificateRequester struct {
	// User is the controller that makes them.
	User request.Requester
	// Copied selects the annotations that they have of their Certificates.
	Copied issuance.CopiedAnnotations
}

// DecideCertificate decides about the request that will be made for a
// Certificate, which need not be stored. What will only be known then, such as the
// key, is open. It returns nil if no policy can be about the request. The error is
// ErrUnknown, or why no request can be made.
func (p *Policies) DecideCertificate(ctx context.Context, crt *cmv1.Certificate) (*Decision, error) {
	in, _, err := PlannedRequest(crt, p.certificates)
	if err != nil {
		return nil, err
	}
	in.Stage = v1alpha1.StageOwner
	in.Request.Created = p.clock.Now()
	return p.Decide(ctx, in)
}

// PlannedRequest returns the request that will be made for a Certificate, and
// what is known about its origin.
func PlannedRequest(crt *cmv1.Certificate, by CertificateRequester) (certpolicy.Input, *cmv1.CertificateRequest, error) {
	cr, err := issuance.UnsignedRequest(crt, by.Copied)
	if err != nil {
		return certpolicy.Input{}, nil, err
	}
	cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups, cr.Spec.Extra = by.User.Username, by.User.UID, by.User.Groups, by.User.Extra
	in := certpolicy.Input{Request: request.FromCertificateRequest(cr)}
	in.Facts.Origin, in.Facts.Owner = certpolicy.Known(new(v1alpha1.OriginCertificate)), certpolicy.Known(&crt.ObjectMeta)
	return in, cr, nil
}
