package certmanager

import (
	"fmt"
	"net"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// providers check the settings of DNS providers, in the order of their errors:
// each returns false if the solver does not set it.
var providers = []struct {
	name     string
	validate func(*acmev1.ACMEChallengeSolverDNS01, *field.Path) (field.ErrorList, bool)
}{
	{"akamai", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderAkamai { return s.Akamai }, validateAkamai)},
	{"azureDNS", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderAzureDNS { return s.AzureDNS }, validateAzureDNS)},
	{"cloudDNS", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderCloudDNS { return s.CloudDNS }, validateCloudDNS)},
	{"cloudflare", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderCloudflare {
		return s.Cloudflare
	}, validateCloudflare)},
	{"route53", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderRoute53 { return s.Route53 }, validateRoute53)},
	{acmeDNS, provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderAcmeDNS { return s.AcmeDNS }, validateAcmeDNS)},
	{"digitalocean", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderDigitalOcean {
		return s.DigitalOcean
	}, validateDigitalOcean)},
	{"rfc2136", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderRFC2136 { return s.RFC2136 }, validateRFC2136)},
	{"webhook", provider(func(s *acmev1.ACMEChallengeSolverDNS01) *acmev1.ACMEIssuerDNS01ProviderWebhook { return s.Webhook }, validateDNSWebhook)},
}

// acmeDNS is accepted beside another provider, as by cert-manager.
const acmeDNS = "acmeDNS"

func provider[P any](of func(*acmev1.ACMEChallengeSolverDNS01) *P, validate func(*P, *field.Path) field.ErrorList) func(*acmev1.ACMEChallengeSolverDNS01, *field.Path) (field.ErrorList, bool) {
	return func(solver *acmev1.ACMEChallengeSolverDNS01, path *field.Path) (field.ErrorList, bool) {
		if p := of(solver); p != nil {
			return validate(p, path), true
		}
		return nil, false
	}
}

func validateDNS01(solver *acmev1.ACMEChallengeSolverDNS01, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch solver.CNAMEStrategy {
	case "", acmev1.NoneStrategy, acmev1.FollowStrategy:
	default:
		text := fmt.Sprintf("must be one of %q or %q", acmev1.NoneStrategy, acmev1.FollowStrategy)
		errs = append(errs, field.Invalid(path.Child("cnameStrategy"), solver.CNAMEStrategy, text))
	}
	found := 0
	for _, p := range providers {
		wrong, set := p.validate(solver, path.Child(p.name))
		switch {
		case !set:
			continue
		case found > 0 && p.name != acmeDNS:
			errs = append(errs, field.Forbidden(path.Child(p.name), "may not specify more than one provider type"))
		default:
			errs = append(errs, wrong...)
		}
		found++
	}
	if found == 0 {
		errs = append(errs, field.Required(path, "no DNS01 provider configured"))
	}
	return errs
}

// validateAkamai names the fields without their suffix SecretRef, as
// cert-manager does.
func validateAkamai(p *acmev1.ACMEIssuerDNS01ProviderAkamai, path *field.Path) field.ErrorList {
	errs := requiredKey(&p.AccessToken, path.Child("accessToken"))
	errs = append(errs, requiredKey(&p.ClientSecret, path.Child("clientSecret"))...)
	errs = append(errs, requiredKey(&p.ClientToken, path.Child("clientToken"))...)
	return append(errs, requiredFor(p.ServiceConsumerDomain, path.Child("serviceConsumerDomain"), "")...)
}

func validateAzureDNS(p *acmev1.ACMEIssuerDNS01ProviderAzureDNS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.ClientID != "" || p.TenantID != "" || p.ClientSecret != nil:
		errs = validateAzureClient(p, path)
	case p.ManagedIdentity != nil:
		errs = validateManagedIdentity(p.ManagedIdentity, path.Child("managedIdentity"))
	}
	errs = append(errs, requiredFor(p.SubscriptionID, path.Child("subscriptionID"), "")...)
	errs = append(errs, requiredFor(p.ResourceGroupName, path.Child("resourceGroupName"), "")...)
	switch p.Environment {
	case "", acmev1.AzurePublicCloud, acmev1.AzureChinaCloud, acmev1.AzureGermanCloud, acmev1.AzureUSGovernmentCloud:
		return errs
	}
	text := fmt.Sprintf("must be either empty or one of %s, %s, %s, or %s",
		acmev1.AzurePublicCloud, acmev1.AzureChinaCloud, acmev1.AzureGermanCloud, acmev1.AzureUSGovernmentCloud)
	return append(errs, field.Invalid(path.Child("environment"), p.Environment, text))
}

// validateAzureClient checks the fields of a service principal: either all or none must be
// set.
func validateAzureClient(p *acmev1.ACMEIssuerDNS01ProviderAzureDNS, path *field.Path) field.ErrorList {
	errs := requiredFor(p.ClientID, path.Child("clientID"), "")
	if p.ClientSecret == nil {
		errs = append(errs, field.Required(path.Child("clientSecretSecretRef"), ""))
	} else {
		errs = append(errs, requiredKey(p.ClientSecret, path.Child("clientSecretSecretRef"))...)
	}
	errs = append(errs, requiredFor(p.TenantID, path.Child("tenantID"), "")...)
	if p.ManagedIdentity != nil {
		errs = append(errs, field.Forbidden(path.Child("managedIdentity"), "managed identity cannot be used at the same time as clientID, clientSecretSecretRef or tenantID"))
	}
	return errs
}

func validateManagedIdentity(m *acmev1.AzureManagedIdentity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.ClientID != "" && m.ResourceID != "" {
		errs = append(errs, field.Forbidden(path, "managedIdentityClientID and managedIdentityResourceID cannot both be specified"))
	}
	if m.TenantID != "" && m.ResourceID != "" {
		errs = append(errs, field.Forbidden(path, "managedIdentityTenantID and managedIdentityResourceID cannot both be specified"))
	}
	if m.TenantID != "" && m.ClientID == "" {
		errs = append(errs, field.Required(path, "managedIdentityClientID is required when using managedIdentityTenantID"))
	}
	return errs
}

func validateCloudDNS(p *acmev1.ACMEIssuerDNS01ProviderCloudDNS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.ServiceAccount != nil {
		errs = requiredKey(p.ServiceAccount, path.Child("serviceAccountSecretRef"))
	}
	return append(errs, requiredFor(p.Project, path.Child("project"), "")...)
}

func validateCloudflare(p *acmev1.ACMEIssuerDNS01ProviderCloudflare, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.APIKey != nil {
		errs = append(errs, requiredKey(p.APIKey, path.Child("apiKeySecretRef"))...)
	}
	if p.APIToken != nil {
		errs = append(errs, requiredKey(p.APIToken, path.Child("apiTokenSecretRef"))...)
	}
	switch {
	case p.APIKey != nil && p.APIToken != nil:
		errs = append(errs, field.Forbidden(path, "apiKeySecretRef and apiTokenSecretRef cannot both be specified"))
	case p.APIKey == nil && p.APIToken == nil:
		errs = append(errs, field.Required(path, "apiKeySecretRef or apiTokenSecretRef is required"))
	}
	if p.APIKey != nil {
		errs = append(errs, requiredFor(p.Email, path.Child("email"), "")...)
	}
	return errs
}

// validateRoute53 does not require an access key: the credentials can come from
// elsewhere.
func validateRoute53(p *acmev1.ACMEIssuerDNS01ProviderRoute53, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.AccessKeyID != "" && p.SecretAccessKeyID != nil {
		errs = append(errs, field.Required(path, "accessKeyID and accessKeyIDSecretRef cannot both be specified"))
	}
	if p.SecretAccessKeyID != nil {
		errs = append(errs, requiredKey(p.SecretAccessKeyID, path.Child("accessKeyIDSecretRef"))...)
	}
	return errs
}

func validateAcmeDNS(p *acmev1.ACMEIssuerDNS01ProviderAcmeDNS, path *field.Path) field.ErrorList {
	return append(requiredKey(&p.AccountSecret, path.Child("accountSecretRef")), requiredFor(p.Host, path.Child("host"), "")...)
}

func validateDigitalOcean(p *acmev1.ACMEIssuerDNS01ProviderDigitalOcean, path *field.Path) field.ErrorList {
	return requiredKey(&p.Token, path.Child("tokenSecretRef"))
}

// tsigAlgorithms are the names of algorithms, in any case.
var tsigAlgorithms = []string{"HMACMD5", "HMACSHA1", "HMACSHA256", "HMACSHA512"}

func validateRFC2136(p *acmev1.ACMEIssuerDNS01ProviderRFC2136, path *field.Path) field.ErrorList {
	errs := requiredFor(p.Nameserver, path.Child("nameserver"), "")
	if p.Nameserver != "" && !isNameserver(p.Nameserver) {
		errs = append(errs, field.Invalid(path.Child("nameserver"), p.Nameserver, "nameserver must be set in the form host:port where host is an IPv4 address, an enclosed IPv6 address or a hostname and port is an optional port number."))
	}
	if p.TSIGAlgorithm != "" && !slices.Contains(tsigAlgorithms, strings.ToUpper(p.TSIGAlgorithm)) {
		errs = append(errs, field.NotSupported(path.Child("tsigAlgorithm"), "", tsigAlgorithms))
	}
	noKey := requiredKey(&p.TSIGSecret, path.Child("tsigSecretSecretRef"))
	switch {
	case p.TSIGKeyName != "":
		errs = append(errs, noKey...)
	case len(noKey) == 0:
		errs = append(errs, field.Required(path.Child("tsigKeyName"), ""))
	}
	return errs
}

// isNameserver reports whether text is a host with or without a port.
func isNameserver(text string) bool {
	text = strings.TrimSpace(text)
	host, _, err := net.SplitHostPort(text)
	if err != nil && !strings.Contains(err.Error(), "missing port") {
		return false
	}
	if err != nil {
		host = strings.Trim(text, "[]")
	}
	return host != ""
}

// validateDNSWebhook does not require a group, as cert-manager does not.
func validateDNSWebhook(p *acmev1.ACMEIssuerDNS01ProviderWebhook, path *field.Path) field.ErrorList {
	if InProviderGroup(p) {
		_, errs := ReadProvider(p, path)
		return errs
	}
	return requiredFor(p.SolverName, path.Child("solverName"), "solver name must be specified")
}
