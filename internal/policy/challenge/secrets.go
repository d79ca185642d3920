package challenge

import (
	"slices"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// SecretNames returns the names of the Secrets that a solver reads, which are
// all in the namespace of its issuer's Secrets.
func SecretNames(solver *acmev1.ACMEChallengeSolver) []string {
	dns := solver.DNS01
	if dns == nil {
		return nil
	}
	selectors := certmanager.ProviderSecrets(dns.Webhook)
	if p := dns.Akamai; p != nil {
		selectors = append(selectors, &p.ClientToken, &p.ClientSecret, &p.AccessToken)
	}
	if p := dns.CloudDNS; p != nil {
		selectors = append(selectors, p.ServiceAccount)
	}
	if p := dns.Cloudflare; p != nil {
		selectors = append(selectors, p.APIKey, p.APIToken)
	}
	if p := dns.Route53; p != nil {
		selectors = append(selectors, p.SecretAccessKeyID, &p.SecretAccessKey)
	}
	if p := dns.AzureDNS; p != nil {
		selectors = append(selectors, p.ClientSecret)
	}
	if p := dns.DigitalOcean; p != nil {
		selectors = append(selectors, &p.Token)
	}
	if p := dns.AcmeDNS; p != nil {
		selectors = append(selectors, &p.AccountSecret)
	}
	if p := dns.RFC2136; p != nil {
		selectors = append(selectors, &p.TSIGSecret)
	}
	var names []string
	for _, selector := range selectors {
		if selector != nil && selector.Name != "" {
			names = append(names, selector.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
