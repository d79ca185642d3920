package certmanager

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateACME(acme *acmev1.ACMEIssuer, path *field.Path) field.ErrorList {
	errs := required(acme.Server, path.Child("server"))
	errs = append(errs, required(acme.PrivateKey.Name, path.Child("privateKeySecretRef", "name"))...)
	errs = append(errs, validateBundle(acme.CABundle, path.Child("caBundle"))...)
	if len(acme.CABundle) > 0 && acme.SkipTLSVerify {
		errs = append(errs, field.Invalid(path.Child("skipTLSVerify"), true, "must not be set together with caBundle"))
	}
	if binding := acme.ExternalAccountBinding; binding != nil {
		at := path.Child("externalAccountBinding")
		errs = append(errs, required(binding.KeyID, at.Child("keyID"))...)
		errs = append(errs, requiredKey(&binding.Key, at.Child("keySecretRef"))...)
	}
	for i := range acme.Solvers {
		errs = append(errs, validateSolver(&acme.Solvers[i], path.Child("solvers").Index(i))...)
	}
	return errs
}

func validateSolver(solver *acmev1.ACMEChallengeSolver, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var one choiceOfOne
	if solver.HTTP01 != nil && one.add("http01") {
		errs = append(errs, validateHTTP01(solver.HTTP01, path.Child("http01"))...)
	}
	if solver.DNS01 != nil && one.add("dns01") {
		errs = append(errs, validateDNS01(solver.DNS01, path.Child("dns01"))...)
	}
	if wait := solver.WaitInsteadOfSelfCheck; wait != nil && wait.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("waitInsteadOfSelfCheck"), wait.Duration.String(), "must not be negative"))
	}
	return append(errs, one.validate(path, "http01, dns01")...)
}

func validateHTTP01(solver *acmev1.ACMEChallengeSolverHTTP01, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var one choiceOfOne
	if solver.Ingress != nil && one.add("ingress") {
		errs = append(errs, validateIngress(solver.Ingress, path.Child("ingress"))...)
	}
	if solver.GatewayHTTPRoute != nil && one.add("gatewayHTTPRoute") {
		errs = append(errs, validateGateway(solver.GatewayHTTPRoute, path.Child("gatewayHTTPRoute"))...)
	}
	return append(errs, one.validate(path, "ingress, gatewayHTTPRoute")...)
}

func validateIngress(ingress *acmev1.ACMEChallengeSolverHTTP01Ingress, path *field.Path) field.ErrorList {
	errs := validateServiceType(ingress.ServiceType, path.Child("serviceType"))
	var one choiceOfOne
	if ingress.IngressClassName != nil {
		one.add("ingressClassName")
		for _, why := range apivalidation.NameIsDNSSubdomain(*ingress.IngressClassName, false) {
			errs = append(errs, field.Invalid(path.Child("ingressClassName"), *ingress.IngressClassName, why))
		}
	}
	if ingress.Class != nil {
		one.add("class")
	}
	if ingress.Name != "" {
		one.add("name")
	}
	if len(one) > 1 {
		errs = append(errs, one.validate(path, "")...)
	}
	return errs
}

func validateGateway(gateway *acmev1.ACMEChallengeSolverHTTP01GatewayHTTPRoute, path *field.Path) field.ErrorList {
	errs := validateServiceType(gateway.ServiceType, path.Child("serviceType"))
	for i, parent := range gateway.ParentRefs {
		at := path.Child("parentRefs").Index(i)
		hasKind := parent.Kind != nil && *parent.Kind != ""
		switch {
		case hasKind && parent.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "must be set together with kind"))
		case !hasKind && parent.Name != "":
			errs = append(errs, field.Required(at.Child("kind"), "must be set together with name"))
		}
	}
	return errs
}

func validateServiceType(kind corev1.ServiceType, path *field.Path) field.ErrorList {
	switch kind {
	case "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return nil
	default:
		return field.ErrorList{field.NotSupported(path, kind, []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort})}
	}
}

// validateDNS01 does not check the settings of the provider.
func validateDNS01(solver *acmev1.ACMEChallengeSolverDNS01, path *field.Path) field.ErrorList {
	var one choiceOfOne
	for _, provider := range []struct {
		name string
		set  bool
	}{
		{"akamai", solver.Akamai != nil},
		{"azureDNS", solver.AzureDNS != nil},
		{"cloudDNS", solver.CloudDNS != nil},
		{"cloudflare", solver.Cloudflare != nil},
		{"route53", solver.Route53 != nil},
		{"digitalocean", solver.DigitalOcean != nil},
		{"acmeDNS", solver.AcmeDNS != nil},
		{"rfc2136", solver.RFC2136 != nil},
		{"webhook", solver.Webhook != nil},
	} {
		if provider.set {
			one.add(provider.name)
		}
	}
	return one.validate(path, "acmeDNS, akamai, azureDNS, cloudDNS, cloudflare, digitalocean, rfc2136, route53, webhook")
}
