package admission

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
)

// subjectRestriction refuses requests for a client certificate that bypasses
// authorization and cannot be revoked.
type subjectRestriction struct{ *admission.Handler }

var _ admission.ValidationInterface = subjectRestriction{}

func newSubjectRestriction(authorizer.UnconditionalAuthorizer) admission.Interface {
	return subjectRestriction{admission.NewHandler(admission.Create)}
}

// Validate checks the groups of the requested identity, which are the
// organizations of the subject.
func (subjectRestriction) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isCSR(a, "") {
		return nil
	}
	csr, err := asCSR(a, a.GetObject())
	if err != nil {
		return err
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	req, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(req.Subject.Organization, user.SystemPrivilegedGroup) {
		klog.FromContext(ctx).V(4).Info("Refused a request for a certificate of a privileged group",
			"group", user.SystemPrivilegedGroup, "signer", csr.Spec.SignerName)
		return admission.NewForbidden(a, fmt.Errorf("use of %s signer with %s group is not allowed",
			csr.Spec.SignerName, user.SystemPrivilegedGroup))
	}
	return nil
}
