//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package admission

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
)

// Webhooks and policies for v1 also see requests of v1beta1, converted. The
// pkixPublicKey and the proofOfPossession of a PodCertificateRequest do not
// exist in v1; without these wrappers, any change would remove them.

type keyKeepingWebhook struct{ *mutatingwebhook.Plugin }

var _ admission.MutationInterface = keyKeepingWebhook{}

// Admit implements admission.MutationInterface.
func (p keyKeepingWebhook) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Plugin.Admit(ctx, a, keepPodKeys(a, o))
}

type keyKeepingPolicy struct {
	*mutatingpolicy.Plugin
	schemas *policySchemas
}

var _ admission.MutationInterface = keyKeepingPolicy{}

// Admit implements admission.MutationInterface.
func (p keyKeepingPolicy) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Plugin.Admit(ctx, a, keepPodKeys(a, o))
}

// keepPodKeys returns o. For a PodCertificateRequest, its conversions copy the
// key and the proof of the request being admitted into objects that come from
// v1.
func keepPodKeys(a admission.Attributes, o admission.ObjectInterfaces) admission.ObjectInterfaces {
	if a.GetKind().GroupKind() != certificatesv1beta1.Kind("PodCertificateRequest") {
		return o // others are not converted for this
	}
	request, ok := a.GetObject().(*certificatesv1beta1.PodCertificateRequest)
	if !ok {
		return o
	}
	return keyKeepingInterfaces{o, keyKeepingConvertor{o.GetObjectConvertor(), request}}
}

type keyKeepingInterfaces struct {
	admission.ObjectInterfaces
	convertor keyKeepingConvertor
}

// GetObjectConvertor implements admission.ObjectInterfaces.
func (i keyKeepingInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return i.convertor }

// keyKeepingConvertor converts for one request. It converts the changes of
// webhooks and policies into admitted itself.
type keyKeepingConvertor struct {
	runtime.ObjectConvertor
	admitted *certificatesv1beta1.PodCertificateRequest
}

// Convert implements runtime.ObjectConvertor.
func (c keyKeepingConvertor) Convert(in, out, context any) error {
	key, proof := c.admitted.Spec.PKIXPublicKey, c.admitted.Spec.ProofOfPossession // out may be the same object
	if err := c.ObjectConvertor.Convert(in, out, context); err != nil {
		return err
	}
	if request, ok := out.(*certificatesv1beta1.PodCertificateRequest); ok && isV1PodRequest(in) {
		request.Spec.PKIXPublicKey, request.Spec.ProofOfPossession = key, proof
	}
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (c keyKeepingConvertor) ConvertToVersion(in runtime.Object, version runtime.GroupVersioner) (runtime.Object, error) {
	fromV1 := isV1PodRequest(in)
	out, err := c.ObjectConvertor.ConvertToVersion(in, version)
	if err != nil {
		return nil, err
	}
	if request, ok := out.(*certificatesv1beta1.PodCertificateRequest); ok && fromV1 {
		request.Spec.PKIXPublicKey, request.Spec.ProofOfPossession = c.admitted.Spec.PKIXPublicKey, c.admitted.Spec.ProofOfPossession
	}
	return out, nil
}

// isV1PodRequest reports whether obj is a PodCertificateRequest of v1.
func isV1PodRequest(obj any) bool {
	switch obj := obj.(type) {
	case *certificatesv1.PodCertificateRequest:
		return true
	case *unstructured.Unstructured:
		return obj.GroupVersionKind() == schema.GroupVersionKind{Group: certificatesv1.GroupName, Version: "v1", Kind: "PodCertificateRequest"}
	}
	return false
}
