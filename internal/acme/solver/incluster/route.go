package incluster

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// ensureRoute makes an HTTPRoute lead to the Service of a challenge. It changes a route
// that leads elsewhere.
func (s *Solver) ensureRoute(ctx context.Context, ch *acmev1.Challenge, service string) error {
	wanted := wantedRoute(ch, service)
	object, err := s.ensureOne(ctx, ch, routeKind, wanted)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster has no HTTPRoutes of %s: install the Gateway API: %w", gatewayv1.GroupVersion, err)
	}
	if err != nil {
		return err
	}
	route := object.(*gatewayv1.HTTPRoute)
	labels := overlay(route.Labels, wanted.Labels)
	if sameRoute(route.Spec, wanted.Spec) && maps.Equal(route.Labels, labels) {
		return nil
	}
	before := route.DeepCopy()
	route.Labels, route.Spec = labels, *wanted.Spec.DeepCopy()
	if err := s.client.Patch(ctx, route, patchOf(before)); err != nil {
		return fmt.Errorf("updating the solver's HTTPRoute %s: %w", route.Name, err)
	}
	return nil
}

// wantedRoute returns the HTTPRoute of a challenge.
func wantedRoute(ch *acmev1.Challenge, service string) *gatewayv1.HTTPRoute {
	cfg := ch.Spec.Solver.HTTP01.GatewayHTTPRoute
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: ownedBy(ch, cfg.Labels),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: cfg.ParentRefs},
			Rules:           []gatewayv1.HTTPRouteRule{routeRule(ch, service)},
		},
	}
	if host := hostOf(ch); host != "" {
		route.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(host)}
	}
	return route
}

func routeRule(ch *acmev1.Challenge, service string) gatewayv1.HTTPRouteRule {
	return gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{
			Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchExact), Value: ptr.To(pathOf(ch))},
		}},
		BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{
				Group:     ptr.To(gatewayv1.Group(corev1.GroupName)),
				Kind:      ptr.To(gatewayv1.Kind("Service")),
				Name:      gatewayv1.ObjectName(service),
				Namespace: ptr.To(gatewayv1.Namespace(ch.Namespace)),
				Port:      ptr.To(gatewayv1.PortNumber(port)),
			},
			Weight: ptr.To(int32(1)),
		}}},
	}
}

// sameRoute reports whether two specs are equal once the API has filled in its
// defaults.
func sameRoute(a, b gatewayv1.HTTPRouteSpec) bool {
	return reflect.DeepEqual(withDefaults(a), withDefaults(b))
}

// withDefaults returns a spec as the API stores it. Only references to parents
// can lack something.
func withDefaults(spec gatewayv1.HTTPRouteSpec) gatewayv1.HTTPRouteSpec {
	spec = *spec.DeepCopy()
	for i := range spec.ParentRefs {
		parent := &spec.ParentRefs[i]
		if parent.Group == nil {
			parent.Group = ptr.To(gatewayv1.Group(gatewayv1.GroupName))
		}
		if parent.Kind == nil {
			parent.Kind = ptr.To(gatewayv1.Kind("Gateway"))
		}
	}
	if len(spec.ParentRefs) == 0 {
		spec.ParentRefs = nil // an empty list is stored as none
	}
	return spec
}
