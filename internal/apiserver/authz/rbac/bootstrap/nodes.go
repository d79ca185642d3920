package bootstrap

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// nodeBindings returns the bindings with which the holder of a bootstrap token
// becomes a node and nodes renew their certificates.
func nodeBindings() []*rbacv1.ClusterRoleBinding {
	const subresources = "system:certificates.k8s.io:certificatesigningrequests:"
	return []*rbacv1.ClusterRoleBinding{
		bind("system:node-bootstrapper", group(bootstrapapi.BootstrapDefaultGroup)),
		bind(subresources+"nodeclient", group(bootstrapapi.BootstrapDefaultGroup)),
		bind(subresources+"selfnodeclient", group("system:nodes")),
	}
}

// ReconcileNodes adds missing parts to the bindings that let nodes get and renew their
// certificates; if wanted is false, it removes the bindings. It does not change a binding
// whose autoupdate annotation is "false".
func ReconcileNodes(ctx context.Context, client kubernetes.Interface, wanted bool) error {
	if wanted {
		return reconcileBindings(ctx, client, nodeBindings())
	}
	for _, binding := range nodeBindings() {
		if err := removeBinding(ctx, client, binding.Name); err != nil {
			return fmt.Errorf("removing ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}
	return nil
}

func removeBinding(ctx context.Context, client kubernetes.Interface, name string) error {
	bindings := client.RbacV1().ClusterRoleBindings()
	found, err := bindings.Get(ctx, name, metav1.GetOptions{})
	if err == nil && found.Annotations[rbacv1.AutoUpdateAnnotationKey] == "true" {
		err = bindings.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
