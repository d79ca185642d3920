package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of certplane's own kinds.
const GroupName = "certplane.dev"

// GroupVersion is the version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Signer{}, &SignerList{},
		&CertificatePolicy{}, &CertificatePolicyList{},
		&CertificatePolicyException{}, &CertificatePolicyExceptionList{},
		&AcmeEndpoint{}, &AcmeEndpointList{},
		&AcmeExternalKey{}, &AcmeExternalKeyList{},
		&AcmeAccount{}, &AcmeAccountList{},
		&AcmeAccountKey{}, &AcmeAccountKeyList{},
		&AcmeOrder{}, &AcmeOrderList{},
		&Revocation{}, &RevocationList{},
		&TrustBundle{}, &TrustBundleList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
