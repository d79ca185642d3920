// Package providers lists the DNS providers that solvers can name.
package providers

import (
	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns"
	"github.com/certplane/certplane/internal/acme/solver/dns/acmedns"
	"github.com/certplane/certplane/internal/acme/solver/dns/akamai"
	"github.com/certplane/certplane/internal/acme/solver/dns/azuredns"
	"github.com/certplane/certplane/internal/acme/solver/dns/clouddns"
	"github.com/certplane/certplane/internal/acme/solver/dns/cloudflare"
	"github.com/certplane/certplane/internal/acme/solver/dns/desec"
	"github.com/certplane/certplane/internal/acme/solver/dns/digitalocean"
	"github.com/certplane/certplane/internal/acme/solver/dns/rfc2136"
	"github.com/certplane/certplane/internal/acme/solver/dns/route53"
)

// All returns the providers in the order in which a spec is searched for them.
// Webhooks come before all of them.
func All() []dns.Row {
	return []dns.Row{
		dns.NewGroupRow("desec", desec.New),
		dns.NewRow("rfc2136", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderRFC2136 { return s.RFC2136 }, rfc2136.New),
		dns.NewRow("akamai", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderAkamai { return s.Akamai }, akamai.New),
		dns.NewRow("cloudDNS", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderCloudDNS { return s.CloudDNS }, clouddns.New),
		dns.NewRow("cloudflare", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderCloudflare { return s.Cloudflare }, cloudflare.New).FindsZones(),
		dns.NewRow("digitalocean", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderDigitalOcean { return s.DigitalOcean }, digitalocean.New),
		dns.NewRow("route53", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderRoute53 { return s.Route53 }, route53.New),
		dns.NewRow("azureDNS", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderAzureDNS { return s.AzureDNS }, azuredns.New),
		dns.NewRow("acmeDNS", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderAcmeDNS { return s.AcmeDNS }, acmedns.NewSlots().New).FindsZones(),
	}
}
