package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodRequestObject is a PodCertificateRequest in any version.
type PodRequestObject interface {
	metav1.Object
	runtime.Object
}

// PodRequestList is a list of PodCertificateRequests in any version.
type PodRequestList interface {
	metav1.ListInterface
	runtime.Object
}

// PodRequestVersion is a version of the API that serves PodCertificateRequests,
// for clients that support several of them.
type PodRequestVersion struct {
	// Name is v1 or v1beta1.
	Name string
	// New and NewList return empty objects.
	New     func() PodRequestObject
	NewList func() PodRequestList
}

// PodRequestVersions are the versions that clients support, by their names.
var PodRequestVersions = map[string]PodRequestVersion{
	"v1": {
		Name:    "v1",
		New:     func() PodRequestObject { return &certificatesv1.PodCertificateRequest{} },
		NewList: func() PodRequestList { return &certificatesv1.PodCertificateRequestList{} },
	},
	"v1beta1": {
		Name:    "v1beta1",
		New:     func() PodRequestObject { return &podRequest{} },
		NewList: func() PodRequestList { return &certificatesv1beta1.PodCertificateRequestList{} },
	},
}

// PodRequestFrom returns a request in the version that can represent all the
// others, or nil if o is not a PodCertificateRequest. The result can share
// memory with o.
func PodRequestFrom(o any) *certificatesv1beta1.PodCertificateRequest {
	switch o := o.(type) {
	case *podRequest:
		return o
	case *certificatesv1.PodCertificateRequest:
		request := &podRequest{}
		podRequestFromV1(o, request)
		return request
	}
	return nil
}

// From returns a request as an object of this version. The result can share
// memory with the request.
func (v PodRequestVersion) From(request *certificatesv1beta1.PodCertificateRequest) PodRequestObject {
	if v.Name != "v1" {
		return request
	}
	o := &certificatesv1.PodCertificateRequest{}
	podRequestToV1(request, o)
	return o
}

// PodRequestItems returns the requests of a list. They must not be modified.
func PodRequestItems(list PodRequestList) []PodRequestObject {
	var items []PodRequestObject
	switch list := list.(type) {
	case *certificatesv1.PodCertificateRequestList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	case *certificatesv1beta1.PodCertificateRequestList:
		for i := range list.Items {
			items = append(items, &list.Items[i])
		}
	}
	return items
}
