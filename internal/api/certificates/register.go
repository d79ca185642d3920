package certificates

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// internalVersion is the hub for conversions between the served versions.
var internalVersion = schema.GroupVersion{Group: certificatesv1.GroupName, Version: runtime.APIVersionInternal}

// servedVersions are the versions of the group, the preferred one first.
var servedVersions = []schema.GroupVersion{
	certificatesv1.SchemeGroupVersion,
	certificatesv1beta1.SchemeGroupVersion,
	certificatesv1alpha1.SchemeGroupVersion,
}

// AddToScheme adds the served kinds of certificates.k8s.io to scheme. The
// group's AddToScheme in k8s.io/api knows more kinds than are served here.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, version := range []schema.GroupVersion{certificatesv1.SchemeGroupVersion, internalVersion} {
		scheme.AddKnownTypes(version,
			&certificatesv1.CertificateSigningRequest{},
			&certificatesv1.CertificateSigningRequestList{},
			&certificatesv1.ClusterTrustBundle{},
			&certificatesv1.ClusterTrustBundleList{},
		)
	}
	scheme.AddKnownTypes(certificatesv1beta1.SchemeGroupVersion,
		&certificatesv1beta1.CertificateSigningRequest{},
		&certificatesv1beta1.CertificateSigningRequestList{},
		&certificatesv1beta1.ClusterTrustBundle{},
		&certificatesv1beta1.ClusterTrustBundleList{},
	)
	scheme.AddKnownTypes(certificatesv1alpha1.SchemeGroupVersion,
		&certificatesv1alpha1.ClusterTrustBundle{},
		&certificatesv1alpha1.ClusterTrustBundleList{},
	)
	for _, version := range servedVersions {
		metav1.AddToGroupVersion(scheme, version)
	}

	addDefaults(scheme)
	for _, add := range []func(*runtime.Scheme) error{addConversions, addFieldLabels, addPodRequests} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("registering %s: %w", certificatesv1.GroupName, err)
		}
	}
	return scheme.SetVersionPriority(servedVersions...)
}
