package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// approval lets only those write to /approval who may approve for the
// request's signer.
type approval struct {
	*admission.Handler
	signers signers
}

var _ admission.ValidationInterface = approval{}

func newApproval(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return approval{admission.NewHandler(admission.Update), signers{authz}}
}

// Validate trusts only the stored object: the other one is what the user
// wants it to be.
func (p approval) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isCSR(a, "approval") {
		return nil
	}
	stored, err := asCSR(a, a.GetOldObject())
	if err != nil {
		return err
	}
	if !p.signers.allow(ctx, a.GetUserInfo(), "approve", stored.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", stored.Spec.SignerName))
	}
	return nil
}
