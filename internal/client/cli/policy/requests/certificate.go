package requests

import (
	"cmp"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policies"
)

// ofCertificate returns the request that the controller creates for a Certificate.
func (o *Options) ofCertificate(crt *cmv1.Certificate) (*Asked, error) {
	spec := &crt.Spec
	if err := o.set(crt, &spec.IssuerRef, &spec.Usages, &spec.Duration, &spec.IsCA); err != nil {
		return nil, err
	}
	if errs := certmanager.ValidateCertificate(crt); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	who := o.Controller
	if o.As != nil {
		who = *o.As
	}
	crt.UID = cmp.Or(crt.UID, types.UID("certificate-"+crt.Name))
	planned, cr, err := policies.PlannedRequest(crt, policies.CertificateRequester{User: who})
	if err != nil {
		return nil, err
	}
	return &Asked{Request: planned.Request, Object: cr, Origin: planned.Facts.Origin, Owner: planned.Facts.Owner}, nil
}
