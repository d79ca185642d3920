package certificateshim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/policy/shim"
)

// attach adds to a ListenerSet the annotations that it inherits from its Gateway. It reports
// false if it has none that stays. refusal explains why the Gateway does not allow the
// ListenerSet; it is empty if it does.
func (r *reconciler) attach(ctx context.Context, set *gatewayv1.ListenerSet) (attached bool, refusal string, err error) {
	parent, gateway := shim.ParentOf(set), &gatewayv1.Gateway{}
	if parent.Name == "" {
		return false, "", nil
	}
	if err := r.gateways.Get(ctx, parent, gateway); err != nil || gateway.DeletionTimestamp != nil {
		return false, "", client.IgnoreNotFound(err)
	}
	set.Annotations = shim.Inherit(set.Annotations, gateway.Annotations)
	if r.AllowedListeners == shim.Ignore {
		return true, "", nil
	}
	allowed, err := shim.Allows(gateway, set.Namespace, func() (map[string]string, error) {
		found := &corev1.Namespace{}
		err := r.Namespaces.Get(ctx, client.ObjectKey{Name: set.Namespace}, found)
		return found.Labels, err
	})
	if err != nil || allowed {
		return true, "", err
	}
	return true, fmt.Sprintf("spec.allowedListeners of Gateway %q does not allow ListenerSets of the namespace %q, so their Certificates are neither created nor updated", parent, set.Namespace), nil
}
