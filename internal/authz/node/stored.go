package node

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// FromStore returns what client, which may read everything, finds out about
// requests. Nodes rarely read one by its name: it is cheaper to look it up
// each time than to remember them all.
func FromStore(client kubernetes.Interface) Requests {
	return func(ctx context.Context, namespace, name string) (string, error) {
		request, err := client.CertificatesV1().PodCertificateRequests(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return string(request.Spec.NodeName), nil
	}
}
