package certmanager

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// approval lets a user approve and deny CertificateRequests only if the user
// may approve for their issuer.
type approval struct {
	resources *resources
	authorize Authorize
}

func (a approval) check(ctx context.Context, r Request, o objects) error {
	if r.Operation != admissionv1.Update || !r.isRequest("status") {
		return nil
	}
	cr, old := o.new.(*cmv1.CertificateRequest), o.old.(*cmv1.CertificateRequest)
	if !api.IsDecision(cr, old) {
		return nil
	}
	return a.mayApprove(ctx, r.User, cr.Spec.IssuerRef, r.Namespace)
}

// MayApprove returns an error unless a user may approve for the issuer of cr.
func (c *Checks) MayApprove(ctx context.Context, user authenticationv1.UserInfo, cr *cmv1.CertificateRequest) error {
	return c.approval.mayApprove(ctx, user, cr.Spec.IssuerRef, cr.Namespace)
}

func (a approval) mayApprove(ctx context.Context, user authenticationv1.UserInfo, ref cmmeta.IssuerReference, namespace string) error {
	names, err := a.signers(ctx, ref, namespace)
	if errors.Is(err, api.ErrNoResource) {
		return field.Forbidden(field.NewPath("spec.issuerRef"), fmt.Sprintf("%s: %v", api.MessageNoSigner, ref))
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		allowed, err := a.authorize(ctx, user, rightToApprove(name))
		if err != nil {
			return fmt.Errorf("asking whether user %q may approve for %s: %w", user.Username, name, err)
		}
		if allowed {
			return nil
		}
	}
	return field.Forbidden(field.NewPath("status.conditions"),
		fmt.Sprintf("user %q does not have permissions to set approved/denied conditions for issuer %v", user.Username, ref))
}

// rightToApprove returns the right to approve for a signer, in all namespaces.
func rightToApprove(signer string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "approve", Group: api.Group, Version: "*", Resource: "signers", Name: signer}
}

// signers returns the names under which the right to approve for an issuer is granted:
// the name for all issuers of its kind, and the issuer's own.
func (a approval) signers(ctx context.Context, ref cmmeta.IssuerReference, namespace string) ([]string, error) {
	resource, err := a.resources.find(ctx, api.IssuerGroupKind(ref))
	if err != nil {
		return nil, err
	}
	return api.ApprovalNames(ref, resource, namespace), nil
}
