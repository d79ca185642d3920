package incluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	classAnnotation = "kubernetes.io/ingress.class"
	// whitelist is, behind a slash, the end of the annotations that make Ingress
	// controllers accept only some addresses.
	whitelist      = "/whitelist-source-range"
	nginxWhitelist = "nginx.ingress.kubernetes.io" + whitelist
)

// ensureIngress lets an Ingress lead to the Service of a challenge.
func (s *Solver) ensureIngress(ctx context.Context, ch *acmev1.Challenge, service string) error {
	if ch.Spec.Solver.HTTP01.Ingress.Name != "" {
		return s.editNamed(ctx, ch, service)
	}
	object, err := s.ensureOne(ctx, ch, ingressKind, wantedIngress(ch, s.ingressPath(ch, service)))
	if err != nil {
		return err
	}
	if leadsTo(object.(*networkingv1.Ingress), pathOf(ch), service) {
		return nil
	}
	if err := s.delete(ctx, ingressKind, []client.Object{object}); err != nil {
		return err
	}
	return fmt.Errorf("the Ingress %s did not lead to the Service of this challenge, and was deleted. It is created again", object.GetName())
}

// leadsTo reports whether a path of an Ingress leads to a Service.
func leadsTo(ingress *networkingv1.Ingress, path, service string) bool {
	return slices.ContainsFunc(ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool {
		return rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool {
			return p.Path == path && p.Backend.Service != nil && p.Backend.Service.Name == service
		})
	})
}

// ingressPath returns the path of a challenge, which leads to its Service.
func (s *Solver) ingressPath(ch *acmev1.Challenge, service string) networkingv1.HTTPIngressPath {
	pathType := networkingv1.PathTypeImplementationSpecific
	if s.settings.PathTypeExact {
		pathType = networkingv1.PathTypeExact
	}
	return networkingv1.HTTPIngressPath{
		Path:     pathOf(ch),
		PathType: ptr.To(pathType),
		Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: service, Port: networkingv1.ServiceBackendPort{Number: port}},
		},
	}
}

// wantedIngress returns the Ingress of a challenge.
func wantedIngress(ch *acmev1.Challenge, path networkingv1.HTTPIngressPath) *networkingv1.Ingress {
	cfg := ch.Spec.Solver.HTTP01.Ingress
	template := acmev1.ACMEChallengeSolverHTTP01IngressObjectMeta{}
	if cfg.IngressTemplate != nil {
		template = cfg.IngressTemplate.ACMEChallengeSolverHTTP01IngressObjectMeta
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: ownedBy(ch, template.Labels),
		Spec:       networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{ruleFor(hostOf(ch), path)}},
	}
	ingress.Annotations = overlay(ingressAnnotations(cfg.Class, template.Annotations), template.Annotations)
	if name := ptr.Deref(cfg.IngressClassName, ""); name != "" {
		ingress.Spec.IngressClassName = ptr.To(name)
	}
	return ingress
}

// ingressAnnotations returns the annotations of an Ingress in addition to the template's.
// By default the Ingress accepts all addresses; a restriction in the template replaces
// that.
func ingressAnnotations(class *string, template map[string]string) map[string]string {
	annotations := map[string]string{nginxWhitelist: "0.0.0.0/0,::/0"}
	for key := range template {
		if strings.HasSuffix(key, whitelist) {
			delete(annotations, nginxWhitelist)
		}
	}
	if class != nil {
		annotations[classAnnotation] = *class
	}
	return annotations
}

func ruleFor(host string, path networkingv1.HTTPIngressPath) networkingv1.IngressRule {
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
	}}
}
