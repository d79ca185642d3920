package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group.
const GroupName = "records.certplane.dev"

// GroupVersion is the version that this package describes.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

const (
	// DayLabel is the label with the day on which the certificates of a CertificatePack end,
	// in days since 1970 (UTC), six digits.
	DayLabel = GroupName + "/day"
	// FilterAnnotation holds the number of the records, and the filter that tells which records
	// a CertificatePack cannot contain, base64.
	FilterAnnotation = GroupName + "/filter"
	// SizeAnnotation is the length of spec.data in bytes, as a number.
	SizeAnnotation = GroupName + "/size"
)

// CertificatePack holds compressed records of issued certificates that end on one day.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=certificatepacks,scope=Namespaced
// +kubebuilder:printcolumn:name="Day",type=string,JSONPath=`.metadata.labels.records\.certplane\.dev/day`
// +kubebuilder:printcolumn:name="Bytes",type=string,JSONPath=`.metadata.annotations.records\.certplane\.dev/size`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CertificatePack struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CertificatePackSpec `json:"spec"`
}

// CertificatePackSpec is the content of a CertificatePack.
type CertificatePackSpec struct {
	// data are the records, compressed.
	Data []byte `json:"data"`
}

// CertificatePackList is a list of CertificatePacks.
//
// +kubebuilder:object:root=true
type CertificatePackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CertificatePack `json:"items"`
}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CertificatePack{}, &CertificatePackList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
