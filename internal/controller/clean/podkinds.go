package clean

import (
	"slices"
	"strconv"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/retention"
)

// byNode is the index of requests by the node that has made them.
const byNode = "spec.nodeName"

// viewOf returns what the decision about a request depends on.
func viewOf(o client.Object) retention.PodRequest {
	view := retention.PodRequest{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		Created: o.GetCreationTimestamp().Time, Deleting: o.GetDeletionTimestamp() != nil, Bytes: sizeOf(o),
	}
	switch o := o.(type) {
	case *certificatesv1.PodCertificateRequest:
		view.Node, view.SignerName, view.Finished = string(o.Spec.NodeName), o.Spec.SignerName, finishedSince(o.Status.Conditions)
		view.Issued = meta.IsStatusConditionTrue(o.Status.Conditions, "Issued")
	case *certificatesv1beta1.PodCertificateRequest:
		view.Node, view.SignerName, view.Finished = string(o.Spec.NodeName), o.Spec.SignerName, finishedSince(o.Status.Conditions)
		view.Issued = meta.IsStatusConditionTrue(o.Status.Conditions, "Issued")
	}
	return view
}

// finishedSince returns the time of the first outcome.
func finishedSince(conditions []metav1.Condition) time.Time {
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool {
		return slices.Contains([]string{"Issued", "Denied", "Failed"}, c.Type)
	})
	if i < 0 {
		return time.Time{}
	}
	return conditions[i].LastTransitionTime.Time
}

// sizeNote is the annotation with the original size of a request that has been
// stripped. No API server accepts such a key.
const sizeNote = "size of the whole"

// sizeOf returns about how many bytes a request takes in the store.
func sizeOf(o client.Object) int64 {
	if note, shortened := o.GetAnnotations()[sizeNote]; shortened {
		size, _ := strconv.ParseInt(note, 10, 64)
		return size
	}
	if sized, ok := o.(interface{ Size() int }); ok {
		return int64(sized.Size())
	}
	return 0
}

// onlyWhatCounts strips keys, certificates and annotations, which are most of a
// request, from what the cache holds. It may be called more than once for an
// object.
func onlyWhatCounts(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	size := sizeOf(o)
	switch o := o.(type) {
	case *certificatesv1.PodCertificateRequest:
		o.Spec = certificatesv1.PodCertificateRequestSpec{NodeName: o.Spec.NodeName, SignerName: o.Spec.SignerName}
		o.Status = certificatesv1.PodCertificateRequestStatus{Conditions: o.Status.Conditions}
	case *certificatesv1beta1.PodCertificateRequest:
		o.Spec = certificatesv1beta1.PodCertificateRequestSpec{NodeName: o.Spec.NodeName, SignerName: o.Spec.SignerName}
		o.Status = certificatesv1beta1.PodCertificateRequestStatus{Conditions: o.Status.Conditions}
	default:
		return object, nil
	}
	o.SetManagedFields(nil)
	o.SetOwnerReferences(nil)
	o.SetLabels(nil)
	o.SetAnnotations(map[string]string{sizeNote: strconv.FormatInt(size, 10)})
	return o, nil
}
