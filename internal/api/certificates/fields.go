package certificates

import (
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The fields that are allowed in a field selector.
const (
	nameField       = "metadata.name"
	signerNameField = "spec.signerName"
)

// SelectableFields returns the values that a field selector compares csr with.
func SelectableFields(csr *certificatesv1.CertificateSigningRequest) fields.Set {
	return fields.Set{nameField: csr.Name, signerNameField: csr.Spec.SignerName}
}

// TrustBundleFields returns the fields of a trust bundle other than its name.
func TrustBundleFields(bundle *certificatesv1.ClusterTrustBundle) fields.Set {
	return fields.Set{signerNameField: bundle.Spec.SignerName}
}

// addFieldLabels registers the selectable fields for every served version:
// the library's default refuses everything but names and namespaces.
func addFieldLabels(scheme *runtime.Scheme) error {
	for _, kind := range []schema.GroupVersionKind{
		certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		certificatesv1beta1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
		certificatesv1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
		certificatesv1beta1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
		certificatesv1alpha1.SchemeGroupVersion.WithKind("ClusterTrustBundle"),
	} {
		if err := scheme.AddFieldLabelConversionFunc(kind, checkFieldLabel); err != nil {
			return err
		}
	}
	return nil
}

func checkFieldLabel(label, value string) (string, string, error) {
	switch label {
	case nameField, signerNameField:
		return label, value, nil
	default:
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}
