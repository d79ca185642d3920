package certmanager

import (
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The paths and texts of these errors are the same as in cert-manager, because its users'
// tests and tools rely on them, even where a path differs from the field's name.

func validateACME(acme *acmev1.ACMEIssuer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(acme.CABundle) > 0 && acme.SkipTLSVerify {
		const text = "caBundle and skipTLSVerify are mutually exclusive and cannot both be set"
		errs = append(errs, field.Invalid(path.Child("caBundle"), "", text), field.Invalid(path.Child("skipTLSVerify"), true, text))
	}
	errs = append(errs, validateBundle(acme.CABundle, path.Child("caBundle"), "")...)
	errs = append(errs, requiredFor(acme.PrivateKey.Name, path.Child("privateKeySecretRef", "name"), "private key secret name is a required field")...)
	errs = append(errs, requiredFor(acme.Server, path.Child("server"), "acme server URL is a required field")...)
	if binding := acme.ExternalAccountBinding; binding != nil {
		at := path.Child("externalAccountBinding")
		errs = append(errs, requiredFor(binding.KeyID, at.Child("keyID"), "the keyID field is required when using externalAccountBinding")...)
		errs = append(errs, requiredKey(&binding.Key, at.Child("keySecretRef"))...)
	}
	for i := range acme.Solvers {
		errs = append(errs, validateSolver(&acme.Solvers[i], path.Child("solvers").Index(i))...)
	}
	return errs
}

func validateSolver(solver *acmev1.ACMEChallengeSolver, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if solver.HTTP01 != nil {
		errs = append(errs, validateHTTP01(solver.HTTP01, path.Child("http01"))...)
	}
	switch {
	case solver.HTTP01 != nil && solver.DNS01 != nil:
		errs = append(errs, field.Forbidden(path, "may not specify more than one solver type in a single solver"))
	case solver.DNS01 != nil:
		errs = append(errs, validateDNS01(solver.DNS01, path.Child("dns01"))...)
	case solver.HTTP01 == nil:
		errs = append(errs, field.Required(path, "no solver type configured"))
	}
	if wait := solver.WaitInsteadOfSelfCheck; wait != nil && wait.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("waitInsteadOfSelfCheck"), wait.Duration, "waitInsteadOfSelfCheck must not be negative"))
	}
	return errs
}

func validateHTTP01(solver *acmev1.ACMEChallengeSolverHTTP01, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if solver.Ingress != nil {
		errs = append(errs, validateIngress(solver.Ingress, path.Child("ingress"))...)
	}
	if solver.GatewayHTTPRoute != nil {
		errs = append(errs, validateGateway(solver.GatewayHTTPRoute, path.Child("gateway"))...)
	}
	switch {
	case solver.Ingress != nil && solver.GatewayHTTPRoute != nil:
		errs = append(errs, field.Required(path, "only 1 HTTP01 solver type may be configured"))
	case solver.Ingress == nil && solver.GatewayHTTPRoute == nil:
		errs = append(errs, field.Required(path, "no HTTP01 solver type configured"))
	}
	return errs
}

func validateIngress(ingress *acmev1.ACMEChallengeSolverHTTP01Ingress, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var one choiceOfOne
	if ingress.Class != nil {
		one.add("class")
	}
	if ingress.IngressClassName != nil {
		one.add("ingressClassName")
	}
	if ingress.Name != "" {
		one.add("name")
	}
	if len(one) > 1 {
		errs = append(errs, field.Forbidden(path, "only one of 'ingressClassName', 'name' or 'class' should be specified"))
	}
	if name := ingress.IngressClassName; name != nil {
		if problems := validation.IsDNS1123Subdomain(*name); len(problems) > 0 {
			errs = append(errs, field.Invalid(path.Child("ingressClassName"), *name, "must be a valid IngressClass name: "+strings.Join(problems, ", ")))
		}
	}
	return append(errs, validateServiceType(ingress.ServiceType, path.Child("serviceType"))...)
}

// validateGateway stops at the first wrong reference. There may be none:
// annotations of Certificates can name the gateway.
func validateGateway(gateway *acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute, path *field.Path) field.ErrorList {
	errs := validateServiceType(gateway.ServiceType, path.Child("serviceType"))
	for i, parent := range gateway.ParentRefs {
		at := path.Child("parentRefs").Index(i)
		switch {
		case parent.Kind != nil && parent.Name == "":
			return append(errs, field.Required(at.Child("name"), "name is required when kind is specified"))
		case parent.Kind == nil && parent.Name != "":
			return append(errs, field.Required(at.Child("kind"), "kind is required when name is specified"))
		}
	}
	return errs
}

func validateServiceType(kind corev1.ServiceType, path *field.Path) field.ErrorList {
	switch kind {
	case "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return nil
	}
	return field.ErrorList{field.Invalid(path, kind, `must be empty, "ClusterIP" or "NodePort"`)}
}
