package admission

import (
	"context"
	"fmt"
	"reflect"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// signing lets only those change a status who may sign for the request's
// signer.
type signing struct {
	*admission.Handler
	signers signers
}

var _ admission.ValidationInterface = signing{}

func newSigning(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return signing{admission.NewHandler(admission.Update), signers{authz}}
}

// Validate takes the signer from the stored object: the other one is what the
// user wants it to be.
func (p signing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !isCSR(a, "status") {
		return nil
	}
	stored, err := asCSR(a, a.GetOldObject())
	if err != nil {
		return err
	}
	csr, err := asCSR(a, a.GetObject())
	if err != nil {
		return err
	}
	if sameStatus(csr.Status, stored.Status) {
		return nil
	}
	if !p.signers.allow(ctx, a.GetUserInfo(), "sign", stored.Spec.SignerName) {
		return admission.NewForbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", stored.Spec.SignerName))
	}
	return nil
}

// sameStatus is strict about the certificate, where nothing and an empty one
// differ, and looks at the meaning of the conditions.
func sameStatus(a, b certificatesv1.CertificateSigningRequestStatus) bool {
	return reflect.DeepEqual(a.Certificate, b.Certificate) &&
		apiequality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}
