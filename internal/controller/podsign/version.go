package podsign

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	betaVersion   = "v1beta1"
	stableVersion = "v1"
)

// request is a PodCertificateRequest in the version that can hold everything.
type request = certificatesv1beta1.PodCertificateRequest

// newObject returns an empty request of a version of the API.
func newObject(version string) client.Object {
	if version == stableVersion {
		return &certificatesv1.PodCertificateRequest{}
	}
	return &request{}
}

// newList returns an empty list of a version of the API.
func newList(version string) client.ObjectList {
	if version == stableVersion {
		return &certificatesv1.PodCertificateRequestList{}
	}
	return &certificatesv1beta1.PodCertificateRequestList{}
}

// fromAPI makes a request of an object of any version. It can share memory
// with the object.
func fromAPI(o client.Object) *request {
	stable, ok := o.(*certificatesv1.PodCertificateRequest)
	if !ok {
		r, _ := o.(*request)
		return r
	}
	return &request{
		ObjectMeta: stable.ObjectMeta,
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: stable.Spec.SignerName,
			PodName:    stable.Spec.PodName, PodUID: stable.Spec.PodUID,
			ServiceAccountName: stable.Spec.ServiceAccountName, ServiceAccountUID: stable.Spec.ServiceAccountUID,
			NodeName: stable.Spec.NodeName, NodeUID: stable.Spec.NodeUID,
			MaxExpirationSeconds:      stable.Spec.MaxExpirationSeconds,
			UnverifiedUserAnnotations: stable.Spec.UnverifiedUserAnnotations,
			StubPKCS10Request:         stable.Spec.StubPKCS10Request,
		},
		Status: certificatesv1beta1.PodCertificateRequestStatus(stable.Status),
	}
}

// toAPI returns the object of a version for a request. It can share memory
// with the request.
func toAPI(r *request, version string) client.Object {
	if version != stableVersion {
		return r
	}
	return &certificatesv1.PodCertificateRequest{
		ObjectMeta: r.ObjectMeta,
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: r.Spec.SignerName,
			PodName:    r.Spec.PodName, PodUID: r.Spec.PodUID,
			ServiceAccountName: r.Spec.ServiceAccountName, ServiceAccountUID: r.Spec.ServiceAccountUID,
			NodeName: r.Spec.NodeName, NodeUID: r.Spec.NodeUID,
			MaxExpirationSeconds:      r.Spec.MaxExpirationSeconds,
			UnverifiedUserAnnotations: r.Spec.UnverifiedUserAnnotations,
			StubPKCS10Request:         r.Spec.StubPKCS10Request,
		},
		Status: certificatesv1.PodCertificateRequestStatus(r.Status),
	}
}

// itemsOf calls do with each request of a list.
func itemsOf(list client.ObjectList, do func(*request)) {
	switch list := list.(type) {
	case *certificatesv1.PodCertificateRequestList:
		for i := range list.Items {
			do(fromAPI(&list.Items[i]))
		}
	case *certificatesv1beta1.PodCertificateRequestList:
		for i := range list.Items {
			do(&list.Items[i])
		}
	}
}
