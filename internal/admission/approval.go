package admission

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// newApproval lets a user write to /approval only if the user may approve for
// the request's signer.
func newApproval(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return signerCheck{
		Handler: admission.NewHandler(admission.Update),
		signers: signers{authz},
		verb:    "approve",
		action:  "approve requests with",
		about:   approvedSigner,
	}
}

// approvedSigner takes the signer from the stored object, because the user chooses the
// content of the other one.
func approvedSigner(a admission.Attributes) (signerName string, asks bool, err error) {
	if !isCSR(a, "approval") {
		return "", false, nil
	}
	stored, err := asCSR(a, a.GetOldObject())
	if err != nil {
		return "", false, err
	}
	return stored.Spec.SignerName, true, nil
}
