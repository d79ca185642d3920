package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultPodExpirationSeconds is the lifetime of a pod's certificate if no
// maximum is set: a day.
const DefaultPodExpirationSeconds = 86400

const podRequestKind = "PodCertificateRequest"

// addPodRequests registers PodCertificateRequests. Their hub is v1beta1: it can
// represent the requests of kubelet 1.35, which v1 cannot.
func addPodRequests(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(certificatesv1.SchemeGroupVersion,
		&certificatesv1.PodCertificateRequest{}, &certificatesv1.PodCertificateRequestList{})
	for _, version := range []schema.GroupVersion{certificatesv1beta1.SchemeGroupVersion, internalVersion} {
		scheme.AddKnownTypes(version,
			&certificatesv1beta1.PodCertificateRequest{}, &certificatesv1beta1.PodCertificateRequestList{})
	}
	addPodRequestDefaults(scheme)
	for _, add := range []func(*runtime.Scheme) error{
		conversionOf(podRequestFromV1),
		conversionOf(podRequestToV1),
		conversionOf(podRequestListFromV1),
		conversionOf(podRequestListToV1),
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	for _, version := range []schema.GroupVersion{certificatesv1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion} {
		if err := scheme.AddFieldLabelConversionFunc(version.WithKind(podRequestKind), checkPodRequestFieldLabel); err != nil {
			return err
		}
	}
	return nil
}

func addPodRequestDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&certificatesv1.PodCertificateRequest{}, func(obj any) {
		defaultPodExpiration(&obj.(*certificatesv1.PodCertificateRequest).Spec.MaxExpirationSeconds)
	})
	scheme.AddTypeDefaultingFunc(&certificatesv1.PodCertificateRequestList{}, func(obj any) {
		for i := range obj.(*certificatesv1.PodCertificateRequestList).Items {
			defaultPodExpiration(&obj.(*certificatesv1.PodCertificateRequestList).Items[i].Spec.MaxExpirationSeconds)
		}
	})
	scheme.AddTypeDefaultingFunc(&podRequest{}, func(obj any) {
		defaultPodExpiration(&obj.(*podRequest).Spec.MaxExpirationSeconds)
	})
	scheme.AddTypeDefaultingFunc(&certificatesv1beta1.PodCertificateRequestList{}, func(obj any) {
		for i := range obj.(*certificatesv1beta1.PodCertificateRequestList).Items {
			defaultPodExpiration(&obj.(*certificatesv1beta1.PodCertificateRequestList).Items[i].Spec.MaxExpirationSeconds)
		}
	})
}

func defaultPodExpiration(seconds **int32) {
	if *seconds == nil {
		day := int32(DefaultPodExpirationSeconds)
		*seconds = &day
	}
}

// Fields of PodCertificateRequests that field selectors support, in addition to the fields
// of CertificateSigningRequests.
const (
	podNameField  = "spec.podName"
	nodeNameField = "spec.nodeName"
	// Only the store may use this field.
	namespaceField = "metadata.namespace"
)

// SelectablePodRequestFields returns the values that a field selector compares
// a request with, and the namespace. Selectors may not use the namespace, but
// watches of one namespace need it.
func SelectablePodRequestFields(request *podRequest) fields.Set {
	return fields.Set{
		nameField:       request.Name,
		namespaceField:  request.Namespace,
		signerNameField: request.Spec.SignerName,
		podNameField:    request.Spec.PodName,
		nodeNameField:   string(request.Spec.NodeName),
	}
}

func checkPodRequestFieldLabel(label, value string) (string, string, error) {
	switch label {
	case podNameField, nodeNameField:
		return label, value, nil
	default:
		return checkFieldLabel(label, value)
	}
}
