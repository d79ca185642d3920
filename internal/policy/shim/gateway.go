package shim

import (
	"fmt"
	"maps"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// ParentOf returns the name of the Gateway that a ListenerSet refers to. The name is empty if
// it refers to none.
func ParentOf(set *gatewayv1.ListenerSet) types.NamespacedName {
	ref := set.Spec.ParentRef
	namespace := string(ptr.Deref(ref.Namespace, ""))
	if namespace == "" {
		namespace = set.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}
}

// Inherit returns the annotations of a ListenerSet. If it selects no issuer, the one of its
// Gateway counts.
func Inherit(set, gateway map[string]string) map[string]string {
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

// Allows reports whether a Gateway allows ListenerSets of a namespace, whose labels it reads if
// they matter.
func Allows(gateway *gatewayv1.Gateway, namespace string, labelsOf func() (map[string]string, error)) (bool, error) {
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
		found, err := labelsOf()
		if err != nil {
			return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		return selector.Matches(labels.Set(found)), nil
	}
	return false, nil
}
