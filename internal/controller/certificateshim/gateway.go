package certificateshim

import (
	"context"
	"fmt"
	"maps"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// parentOf returns the name of the Gateway that a ListenerSet refers to. The name is empty if
// it refers to none.
func parentOf(set *gatewayv1.ListenerSet) client.ObjectKey {
	ref := set.Spec.ParentRef
	namespace := string(ptr.Deref(ref.Namespace, ""))
	if namespace == "" {
		namespace = set.Namespace
	}
	return client.ObjectKey{Namespace: namespace, Name: string(ref.Name)}
}

// inherit returns the annotations of a ListenerSet. If it selects no issuer, the one of its
// Gateway counts.
func inherit(set, gateway map[string]string) map[string]string {
	issuers := []string{cmv1.IngressClusterIssuerNameAnnotationKey, cmv1.IngressIssuerNameAnnotationKey}
	inherited := map[string]string{}
	for _, key := range issuers {
		if _, own := set[key]; own {
			return set
		}
		if value, ok := gateway[key]; ok {
			inherited[key] = value
		}
	}
	if len(inherited) == 0 {
		return set
	}
	for _, key := range []string{cmv1.IssuerKindAnnotationKey, cmv1.IssuerGroupAnnotationKey} {
		if value, ok := gateway[key]; ok {
			inherited[key] = value
		}
	}
	maps.Copy(inherited, set)
	return inherited
}

// attach adds to a ListenerSet the annotations that it inherits from its Gateway. It reports
// false if it has none that stays. refusal explains why the Gateway does not allow the
// ListenerSet; it is empty if it does.
func (r *reconciler) attach(ctx context.Context, set *gatewayv1.ListenerSet) (attached bool, refusal string, err error) {
	parent, gateway := parentOf(set), &gatewayv1.Gateway{}
	if parent.Name == "" {
		return false, "", nil
	}
	if err := r.gateways.Get(ctx, parent, gateway); err != nil || gateway.DeletionTimestamp != nil {
		return false, "", client.IgnoreNotFound(err)
	}
	set.Annotations = inherit(set.Annotations, gateway.Annotations)
	if r.AllowedListeners == ignore {
		return true, "", nil
	}
	allowed, err := r.allows(ctx, gateway, set.Namespace)
	if err != nil || allowed {
		return true, "", err
	}
	return true, fmt.Sprintf("spec.allowedListeners of Gateway %q does not allow ListenerSets of the namespace %q, so their Certificates are neither created nor updated", parent, set.Namespace), nil
}

// allows reports whether a Gateway allows ListenerSets of a namespace.
func (r *reconciler) allows(ctx context.Context, gateway *gatewayv1.Gateway, namespace string) (bool, error) {
	if gateway.Spec.AllowedListeners == nil || gateway.Spec.AllowedListeners.Namespaces == nil {
		return false, nil
	}
	admits := gateway.Spec.AllowedListeners.Namespaces
	switch ptr.Deref(admits.From, gatewayv1.NamespacesFromNone) {
	case gatewayv1.NamespacesFromAll:
		return true, nil
	case gatewayv1.NamespacesFromSame:
		return namespace == gateway.Namespace, nil
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(admits.Selector)
		if err != nil {
			return false, nil // selects nothing; gateways report it
		}
		found := &corev1.Namespace{}
		if err := r.Namespaces.Get(ctx, client.ObjectKey{Name: namespace}, found); err != nil {
			return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		return selector.Matches(labels.Set(found.Labels)), nil
	}
	return false, nil
}
