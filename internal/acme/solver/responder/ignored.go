package responder

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
)

// IgnoredFields returns the fields of a solver that have no meaning for a
// Responder, by their paths in the solver: they describe objects of a cluster.
func IgnoredFields(solver *acmev1.ACMEChallengeSolverHTTP01) []string {
	if solver == nil {
		return nil
	}
	var ignored []string
	add := func(set bool, path string) {
		if set {
			ignored = append(ignored, "http01."+path)
		}
	}
	if i := solver.Ingress; i != nil {
		add(i.ServiceType != "", "ingress.serviceType")
		add(i.IngressClassName != nil, "ingress.ingressClassName")
		add(i.Class != nil, "ingress.class")
		add(i.Name != "", "ingress.name")
		add(i.PodTemplate != nil, "ingress.podTemplate")
		add(i.IngressTemplate != nil, "ingress.ingressTemplate")
	}
	if g := solver.GatewayHTTPRoute; g != nil {
		add(g.ServiceType != "", "gatewayHTTPRoute.serviceType")
		add(len(g.Labels) > 0, "gatewayHTTPRoute.labels")
		add(len(g.ParentRefs) > 0, "gatewayHTTPRoute.parentRefs")
		add(g.PodTemplate != nil, "gatewayHTTPRoute.podTemplate")
	}
	return ignored
}
