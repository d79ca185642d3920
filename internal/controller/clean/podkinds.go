package clean

import (
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/retention"
)

// byNode indexes requests by the node that has asked.
const byNode = "spec.nodeName"

// podKind is PodCertificateRequest in one version.
type podKind struct {
	object func() client.Object
	list   func() client.ObjectList
	each   func(list client.ObjectList, visit func(client.Object))
}

// podKinds are those that we can work with. What we need of them is the same.
var podKinds = map[string]podKind{
	"v1": {
		object: func() client.Object { return &certificatesv1.PodCertificateRequest{} },
		list:   func() client.ObjectList { return &certificatesv1.PodCertificateRequestList{} },
		each: func(list client.ObjectList, visit func(client.Object)) {
			items := list.(*certificatesv1.PodCertificateRequestList).Items
			for i := range items {
				visit(&items[i])
			}
		},
	},
	"v1beta1": {
		object: func() client.Object { return &certificatesv1beta1.PodCertificateRequest{} },
		list:   func() client.ObjectList { return &certificatesv1beta1.PodCertificateRequestList{} },
		each: func(list client.ObjectList, visit func(client.Object)) {
			items := list.(*certificatesv1beta1.PodCertificateRequestList).Items
			for i := range items {
				visit(&items[i])
			}
		},
	},
}

// viewOf returns what decides about a request.
func viewOf(o client.Object) retention.PodRequest {
	view := retention.PodRequest{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		Created: o.GetCreationTimestamp().Time, Deleting: o.GetDeletionTimestamp() != nil,
	}
	switch o := o.(type) {
	case *certificatesv1.PodCertificateRequest:
		view.Node, view.SignerName, view.Finished = string(o.Spec.NodeName), o.Spec.SignerName, finishedSince(o.Status.Conditions)
	case *certificatesv1beta1.PodCertificateRequest:
		view.Node, view.SignerName, view.Finished = string(o.Spec.NodeName), o.Spec.SignerName, finishedSince(o.Status.Conditions)
	}
	return view
}

// finishedSince is when the first outcome came.
func finishedSince(conditions []metav1.Condition) time.Time {
	i := slices.IndexFunc(conditions, func(c metav1.Condition) bool {
		return slices.Contains([]string{"Issued", "Denied", "Failed"}, c.Type)
	})
	if i < 0 {
		return time.Time{}
	}
	return conditions[i].LastTransitionTime.Time
}

// onlyWhatCounts keeps keys, certificates and annotations out of the cache,
// which are most of a request.
func onlyWhatCounts(object any) (any, error) {
	switch o := object.(type) {
	case *certificatesv1.PodCertificateRequest:
		o.ManagedFields, o.OwnerReferences = nil, nil
		o.Spec = certificatesv1.PodCertificateRequestSpec{NodeName: o.Spec.NodeName, SignerName: o.Spec.SignerName}
		o.Status = certificatesv1.PodCertificateRequestStatus{Conditions: o.Status.Conditions}
	case *certificatesv1beta1.PodCertificateRequest:
		o.ManagedFields, o.OwnerReferences = nil, nil
		o.Spec = certificatesv1beta1.PodCertificateRequestSpec{NodeName: o.Spec.NodeName, SignerName: o.Spec.SignerName}
		o.Status = certificatesv1beta1.PodCertificateRequestStatus{Conditions: o.Status.Conditions}
	}
	return object, nil
}
