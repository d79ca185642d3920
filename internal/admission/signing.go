package admission

import (
	"reflect"

	certificatesv1 "k8s.io/api/certificates/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// newSigning lets a user change a status only if the user may sign for the
// request's signer.
func newSigning(authz authorizer.UnconditionalAuthorizer) admission.Interface {
	return signerCheck{
		Handler: admission.NewHandler(admission.Update),
		signers: signers{authz},
		verb:    "sign",
		action:  "sign requests with",
		about:   signedSigner,
	}
}

// signedSigner takes the signer from the stored object, because the user chooses the
// content of the other one.
func signedSigner(a admission.Attributes) (signerName string, asks bool, err error) {
	if !isCSR(a, "status") {
		return "", false, nil
	}
	stored, err := asCSR(a, a.GetOldObject())
	if err != nil {
		return "", false, err
	}
	csr, err := asCSR(a, a.GetObject())
	if err != nil {
		return "", false, err
	}
	return stored.Spec.SignerName, !sameStatus(csr.Status, stored.Status), nil
}

// sameStatus is strict about the certificate, where nil and empty differ, and
// compares the meaning of the conditions.
func sameStatus(a, b certificatesv1.CertificateSigningRequestStatus) bool {
	return reflect.DeepEqual(a.Certificate, b.Certificate) &&
		apiequality.Semantic.DeepEqual(a.Conditions, b.Conditions)
}
