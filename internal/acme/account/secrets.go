package account

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Secrets returns the Secrets that an issuer's spec names: those with the key of
// the account, with the key of the external account, and those of its DNS-01
// solvers.
func (a *Accounts) Secrets(issuer cmv1.GenericIssuer) []types.NamespacedName {
	spec := issuer.GetSpec().ACME
	if spec == nil {
		return nil
	}
	names := []string{spec.PrivateKey.Name}
	if spec.ExternalAccountBinding != nil {
		names = append(names, spec.ExternalAccountBinding.Key.Name)
	}
	for _, ref := range SolverSecrets(issuer) {
		names = append(names, ref.Name)
	}
	var found []types.NamespacedName
	seen := map[string]bool{"": true}
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			found = append(found, a.inNamespace(issuer, name))
		}
	}
	return found
}

// SolverSecrets returns the entries of Secrets that the DNS-01 solvers of an
// issuer need, each once. Those in the config of webhooks of others are not known.
func SolverSecrets(issuer cmv1.GenericIssuer) []cmmeta.SecretKeySelector {
	spec := issuer.GetSpec().ACME
	if spec == nil {
		return nil
	}
	var found []cmmeta.SecretKeySelector
	seen := map[cmmeta.SecretKeySelector]bool{}
	for _, solver := range spec.Solvers {
		if solver.DNS01 == nil {
			continue
		}
		for _, ref := range providerSecrets(solver.DNS01) {
			if ref == nil || ref.Name == "" || seen[*ref] {
				continue
			}
			seen[*ref] = true
			found = append(found, *ref)
		}
	}
	return found
}

// providerSecrets returns what a provider needs; nil and nameless references are
// not set.
func providerSecrets(dns *acmev1.ACMEChallengeSolverDNS01) []*cmmeta.SecretKeySelector {
	var refs []*cmmeta.SecretKeySelector
	if p := dns.Akamai; p != nil {
		refs = append(refs, &p.AccessToken, &p.ClientSecret, &p.ClientToken)
	}
	if p := dns.AzureDNS; p != nil {
		refs = append(refs, p.ClientSecret)
	}
	if p := dns.CloudDNS; p != nil {
		refs = append(refs, p.ServiceAccount)
	}
	if p := dns.Cloudflare; p != nil {
		refs = append(refs, p.APIKey, p.APIToken)
	}
	if p := dns.Route53; p != nil {
		refs = append(refs, &p.SecretAccessKey, p.SecretAccessKeyID)
	}
	if p := dns.AcmeDNS; p != nil {
		refs = append(refs, &p.AccountSecret)
	}
	if p := dns.DigitalOcean; p != nil {
		refs = append(refs, &p.Token)
	}
	if p := dns.RFC2136; p != nil {
		refs = append(refs, &p.TSIGSecret)
	}
	return append(refs, certmanager.ProviderSecrets(dns.Webhook)...)
}
