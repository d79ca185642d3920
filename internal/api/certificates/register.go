package certificates

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// internalVersion is the hub through which the served versions convert into
// each other.
var internalVersion = schema.GroupVersion{Group: certificatesv1.GroupName, Version: runtime.APIVersionInternal}

// AddToScheme teaches scheme the served kinds of certificates.k8s.io. The
// group's AddToScheme in k8s.io/api knows more kinds than are served here.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(certificatesv1.SchemeGroupVersion,
		&certificatesv1.CertificateSigningRequest{},
		&certificatesv1.CertificateSigningRequestList{},
	)
	scheme.AddKnownTypes(certificatesv1beta1.SchemeGroupVersion,
		&certificatesv1beta1.CertificateSigningRequest{},
		&certificatesv1beta1.CertificateSigningRequestList{},
	)
	scheme.AddKnownTypes(internalVersion,
		&certificatesv1.CertificateSigningRequest{},
		&certificatesv1.CertificateSigningRequestList{},
	)
	metav1.AddToGroupVersion(scheme, certificatesv1.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, certificatesv1beta1.SchemeGroupVersion)

	addDefaults(scheme)
	for _, add := range []func(*runtime.Scheme) error{addConversions, addFieldLabels, addPodRequests} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("registering %s: %w", certificatesv1.GroupName, err)
		}
	}
	return scheme.SetVersionPriority(certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion)
}
