package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the inventory.
const GroupName = "inventory.certplane.dev"

// GroupVersion is the version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &IssuedCertificate{}, &IssuedCertificateList{}, &CertificateDecision{}, &CertificateDecisionList{}, &RevocationList{}, &RevocationListList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
