package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addConversions registers the conversions between the hub and the other
// versions.
func addConversions(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		conversionOf(csrFromV1beta1),
		conversionOf(csrToV1beta1),
		conversionOf(csrListFromV1beta1),
		conversionOf(csrListToV1beta1),
		conversionOf(bundleFromV1beta1),
		conversionOf(bundleToV1beta1),
		conversionOf(bundleListFromV1beta1),
		conversionOf(bundleListToV1beta1),
		conversionOf(bundleFromV1alpha1),
		conversionOf(bundleToV1alpha1),
		conversionOf(bundleListFromV1alpha1),
		conversionOf(bundleListToV1alpha1),
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// conversionOf returns a function that registers convert with a scheme.
func conversionOf[In, Out any](convert func(in *In, out *Out)) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		return scheme.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
			convert(in.(*In), out.(*Out))
			return nil
		})
	}
}

// csrFromV1beta1 and the functions below convert between the versions, which
// have one difference: v1beta1 allows requests without signerName.
func csrFromV1beta1(in *certificatesv1beta1.CertificateSigningRequest, out *certificatesv1.CertificateSigningRequest) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request:           in.Spec.Request,
		ExpirationSeconds: in.Spec.ExpirationSeconds,
		Usages:            convertEach(in.Spec.Usages, usageFromV1beta1),
		Username:          in.Spec.Username,
		UID:               in.Spec.UID,
		Groups:            in.Spec.Groups,
		Extra:             convertExtra[certificatesv1.ExtraValue](in.Spec.Extra),
	}
	if in.Spec.SignerName != nil {
		out.Spec.SignerName = *in.Spec.SignerName
	}
	out.Status = certificatesv1.CertificateSigningRequestStatus{
		Conditions:  convertEach(in.Status.Conditions, conditionFromV1beta1),
		Certificate: in.Status.Certificate,
	}
}

// csrToV1beta1 always sets signerName, even to "": nil would be defaulted when
// the object is decoded again.
func csrToV1beta1(in *certificatesv1.CertificateSigningRequest, out *certificatesv1beta1.CertificateSigningRequest) {
	signerName := in.Spec.SignerName
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1beta1.CertificateSigningRequestSpec{
		Request:           in.Spec.Request,
		SignerName:        &signerName,
		ExpirationSeconds: in.Spec.ExpirationSeconds,
		Usages:            convertEach(in.Spec.Usages, usageToV1beta1),
		Username:          in.Spec.Username,
		UID:               in.Spec.UID,
		Groups:            in.Spec.Groups,
		Extra:             convertExtra[certificatesv1beta1.ExtraValue](in.Spec.Extra),
	}
	out.Status = certificatesv1beta1.CertificateSigningRequestStatus{
		Conditions:  convertEach(in.Status.Conditions, conditionToV1beta1),
		Certificate: in.Status.Certificate,
	}
}

func csrListFromV1beta1(in *certificatesv1beta1.CertificateSigningRequestList, out *certificatesv1.CertificateSigningRequestList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, csrFromV1beta1)
}

func csrListToV1beta1(in *certificatesv1.CertificateSigningRequestList, out *certificatesv1beta1.CertificateSigningRequestList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, csrToV1beta1)
}

func usageFromV1beta1(usage certificatesv1beta1.KeyUsage) certificatesv1.KeyUsage {
	return certificatesv1.KeyUsage(usage)
}

func usageToV1beta1(usage certificatesv1.KeyUsage) certificatesv1beta1.KeyUsage {
	return certificatesv1beta1.KeyUsage(usage)
}

func conditionFromV1beta1(in certificatesv1beta1.CertificateSigningRequestCondition) certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{
		Type:               certificatesv1.RequestConditionType(in.Type),
		Status:             in.Status,
		Reason:             in.Reason,
		Message:            in.Message,
		LastUpdateTime:     in.LastUpdateTime,
		LastTransitionTime: in.LastTransitionTime,
	}
}

func conditionToV1beta1(in certificatesv1.CertificateSigningRequestCondition) certificatesv1beta1.CertificateSigningRequestCondition {
	return certificatesv1beta1.CertificateSigningRequestCondition{
		Type:               certificatesv1beta1.RequestConditionType(in.Type),
		Status:             in.Status,
		Reason:             in.Reason,
		Message:            in.Message,
		LastUpdateTime:     in.LastUpdateTime,
		LastTransitionTime: in.LastTransitionTime,
	}
}

// convertEach converts a list one element at a time. A nil list stays nil and
// an empty one stays empty: defaulting distinguishes them.
func convertEach[In, Out any](in []In, convert func(In) Out) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		out[i] = convert(in[i])
	}
	return out
}

// convertItems is convertEach for elements that are converted in place.
func convertItems[In, Out any](in []In, convert func(in *In, out *Out)) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		convert(&in[i], &out[i])
	}
	return out
}

func convertExtra[Out, In ~[]string](in map[string]In) map[string]Out {
	if in == nil {
		return nil
	}
	out := make(map[string]Out, len(in))
	for key, values := range in {
		out[key] = Out(values)
	}
	return out
}
