package node

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// FromStore returns a function that looks up requests with client, which may
// read everything. Nodes rarely read one by its name: a lookup each time is
// cheaper than keeping all of them in memory.
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
