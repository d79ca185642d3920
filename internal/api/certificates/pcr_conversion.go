package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// podRequest is the hub of PodCertificateRequests.
type podRequest = certificatesv1beta1.PodCertificateRequest

// podRequestFromV1 leaves the key and its proof empty: v1 does not have them,
// and its requests always have the stub.
func podRequestFromV1(in *certificatesv1.PodCertificateRequest, out *podRequest) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1beta1.PodCertificateRequestSpec{
		SignerName:                in.Spec.SignerName,
		PodName:                   in.Spec.PodName,
		PodUID:                    in.Spec.PodUID,
		ServiceAccountName:        in.Spec.ServiceAccountName,
		ServiceAccountUID:         in.Spec.ServiceAccountUID,
		NodeName:                  in.Spec.NodeName,
		NodeUID:                   in.Spec.NodeUID,
		MaxExpirationSeconds:      in.Spec.MaxExpirationSeconds,
		StubPKCS10Request:         in.Spec.StubPKCS10Request,
		UnverifiedUserAnnotations: in.Spec.UnverifiedUserAnnotations,
	}
	out.Status = certificatesv1beta1.PodCertificateRequestStatus(in.Status)
}

// podRequestToV1 drops the key and the proof of an old request. No stub could
// replace them: only the key's owner can sign one.
func podRequestToV1(in *podRequest, out *certificatesv1.PodCertificateRequest) {
	out.ObjectMeta = in.ObjectMeta
	out.Spec = certificatesv1.PodCertificateRequestSpec{
		SignerName:                in.Spec.SignerName,
		PodName:                   in.Spec.PodName,
		PodUID:                    in.Spec.PodUID,
		ServiceAccountName:        in.Spec.ServiceAccountName,
		ServiceAccountUID:         in.Spec.ServiceAccountUID,
		NodeName:                  in.Spec.NodeName,
		NodeUID:                   in.Spec.NodeUID,
		MaxExpirationSeconds:      in.Spec.MaxExpirationSeconds,
		StubPKCS10Request:         in.Spec.StubPKCS10Request,
		UnverifiedUserAnnotations: in.Spec.UnverifiedUserAnnotations,
	}
	out.Status = certificatesv1.PodCertificateRequestStatus(in.Status)
}

func podRequestListFromV1(in *certificatesv1.PodCertificateRequestList, out *certificatesv1beta1.PodCertificateRequestList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, podRequestFromV1)
}

func podRequestListToV1(in *certificatesv1beta1.PodCertificateRequestList, out *certificatesv1.PodCertificateRequestList) {
	out.ListMeta = in.ListMeta
	out.Items = convertItems(in.Items, podRequestToV1)
}
