package order

import (
	"errors"
	"slices"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/utils/ptr"
	gwapi "sigs.k8s.io/gateway-api/apis/v1"
)

// The errors of annotations that change solvers.
var (
	errSeveralOverrides = errors.New("may not specify more than one of: name, class, ingressClassName override annotations")
	errHalfParent       = errors.New("cannot specify only one of parentRefName, parentRefKind override annotations")
	errNoParent         = errors.New("must specify parentRefs either through annotations or solver config")
)

// override returns a copy of a solver with the changes that the annotations of
// the Order ask for.
func override(solver *acmev1.ACMEChallengeSolver, o *acmev1.Order) (*acmev1.ACMEChallengeSolver, error) {
	changed := solver.DeepCopy()
	switch {
	case changed.HTTP01 == nil:
		return changed, nil
	case changed.HTTP01.Ingress != nil:
		return changed, overrideIngress(changed.HTTP01.Ingress, o.Annotations)
	case changed.HTTP01.GatewayHTTPRoute != nil:
		return changed, overrideGateway(changed.HTTP01.GatewayHTTPRoute, o)
	}
	return changed, nil
}

// overrideIngress replaces how the Ingress is found or made. An annotation
// counts even if it is empty.
func overrideIngress(ingress *acmev1.ACMEChallengeSolverHTTP01Ingress, annotations map[string]string) error {
	name, hasName := annotations[acmev1.ACMECertificateHTTP01IngressNameOverride]
	class, hasClass := annotations[acmev1.ACMECertificateHTTP01IngressClassOverride]
	className, hasClassName := annotations[acmev1.ACMECertificateHTTP01IngressClassNameOverride]
	switch {
	case hasName && hasClass || hasName && hasClassName || hasClass && hasClassName:
		return errSeveralOverrides
	case !hasName && !hasClass && !hasClassName:
		return nil
	}
	ingress.Name, ingress.Class, ingress.IngressClassName = name, nil, nil
	if hasClass {
		ingress.Class = &class
	}
	if hasClassName {
		ingress.IngressClassName = &className
	}
	return nil
}

// overrideGateway adds the parent in the annotations to the other parents.
func overrideGateway(gateway *acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute, o *acmev1.Order) error {
	name, kind := o.Annotations[acmev1.ACMECertificateHTTP01ParentRefName], o.Annotations[acmev1.ACMECertificateHTTP01ParentRefKind]
	if (name == "") != (kind == "") {
		return errHalfParent
	}
	if name != "" {
		namespace := o.Annotations[acmev1.ACMECertificateHTTP01ParentRefNamespace]
		if namespace == "" {
			namespace = o.Namespace
		}
		gateway.ParentRefs = append(without(gateway.ParentRefs, o.Namespace, namespace, name, kind), gwapi.ParentReference{
			Name: gwapi.ObjectName(name), Kind: ptr.To(gwapi.Kind(kind)), Namespace: ptr.To(gwapi.Namespace(namespace)),
		})
	}
	if o.Annotations != nil && len(gateway.ParentRefs) == 0 { // as in cert-manager, which makes the route otherwise
		return errNoParent
	}
	return nil
}

// without returns the references that are not to this parent. A reference
// without a namespace is to one in the namespace own.
func without(refs []gwapi.ParentReference, own, namespace, name, kind string) []gwapi.ParentReference {
	return slices.DeleteFunc(refs, func(ref gwapi.ParentReference) bool {
		in := string(ptr.Deref(ref.Namespace, gwapi.Namespace(own)))
		return in == namespace && string(ref.Name) == name && (ref.Kind == nil || string(*ref.Kind) == kind)
	})
}
