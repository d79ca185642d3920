package requests

import (
	"cmp"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/request"
)

// ofCertificate returns the request that the controller makes for a Certificate.
func (o *Options) ofCertificate(crt *cmv1.Certificate) (*Asked, error) {
	if err := o.inNamespace(crt); err != nil {
		return nil, err
	}
	spec := &crt.Spec
	if err := o.issuer(&spec.IssuerRef, crt.Namespace); err != nil {
		return nil, err
	}
	if len(o.Usages) > 0 {
		spec.Usages = usagesAs[cmv1.KeyUsage](o.Usages)
	}
	if o.Duration != nil {
		spec.Duration = &metav1.Duration{Duration: *o.Duration}
	}
	spec.IsCA = spec.IsCA || o.CA
	if errs := certmanager.ValidateCertificate(crt); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	who := o.Controller
	if o.As != nil {
		who = *o.As
	}
	key, err := o.Key(spec)
	if err != nil {
		return nil, err
	}
	crt.UID = cmp.Or(crt.UID, types.UID("certificate-"+crt.Name))
	cr, err := issuance.NewRequest(crt, key, nil)
	if err != nil {
		return nil, err
	}
	cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups, cr.Spec.Extra = who.Username, who.UID, who.Groups, who.Extra
	return &Asked{
		Request: request.FromCertificateRequest(cr), Object: cr,
		Origin: certpolicy.Known(new(v1alpha1.OriginCertificate)), Owner: certpolicy.Known(&crt.ObjectMeta),
	}, nil
}
