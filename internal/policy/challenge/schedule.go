package challenge

import (
	"cmp"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Tenant is a sharer of the slots: an issuer, separately for each namespace that uses it.
type Tenant struct {
	Namespace, IssuerKind, Issuer string
}

// TenantOf returns the tenant of a Challenge.
func TenantOf(ch *acmev1.Challenge) Tenant {
	ref := ch.Spec.IssuerRef
	return Tenant{Namespace: ch.Namespace, IssuerKind: certmanager.IssuerKind(ref), Issuer: ref.Name}
}

// Place is a DNS name at which a solver can keep the answers of only so many
// Challenges at the same time. The zero Place has no limit.
type Place struct {
	Name  string
	Limit int
}

// HoldTime is how long a Challenge occupies its Place. A Challenge that cannot be solved
// must not block other Challenges of the same name.
const HoldTime = 15 * time.Minute

// Limits of solvers whose other records do not stay.
const (
	// webhookPlaces is for third-party webhooks, which cert-manager never asks for two
	// records of the same name, and for the providers of certmanager.ProviderGroup, which
	// may replace whole record sets.
	webhookPlaces = 1
	// acmeDNSPlaces is how many values acme-dns keeps for a name.
	acmeDNSPlaces = 2
	// akamaiPlaces is for record sets that are written as a whole, without a way to detect
	// concurrent writes.
	akamaiPlaces = 1
	// tlsALPNPlaces is for validations that do not identify their Challenge.
	tlsALPNPlaces = 1
)

// PlaceOf returns the place that a Challenge needs.
func PlaceOf(ch *acmev1.Challenge) Place {
	dns := ch.Spec.Solver.DNS01
	switch {
	case ch.Spec.Type == certmanager.TypeTLSALPN01:
		return Place{Name: "tls-alpn-01/" + strings.ToLower(ch.Spec.DNSName), Limit: tlsALPNPlaces} // the listener is everybody's
	case dns == nil:
		return Place{}
	case dns.Webhook != nil && dns.Webhook.GroupName != certmanager.ReservedGroup:
		return Place{Name: placeName(ch, "webhook", dns.Webhook.GroupName, dns.Webhook.SolverName), Limit: webhookPlaces}
	case dns.Akamai != nil:
		return Place{Name: placeName(ch, "akamai", dns.Akamai.ServiceConsumerDomain), Limit: akamaiPlaces}
	case dns.AcmeDNS != nil:
		return Place{Name: placeName(ch, "acmeDNS", dns.AcmeDNS.Host), Limit: acmeDNSPlaces}
	}
	return Place{}
}

// placeName returns a name that contains the namespace of the credentials: tenants that
// cannot write the same records must not be able to block each other.
func placeName(ch *acmev1.Challenge, solver ...string) string {
	return strings.Join(append(solver, secretsOf(ch.Namespace, ch.Spec.IssuerRef), strings.ToLower(ch.Spec.DNSName)), "/")
}

func secretsOf(namespace string, ref cmmeta.IssuerReference) string {
	if certmanager.IssuerKind(ref) == "ClusterIssuer" {
		return ""
	}
	return namespace
}

// Candidate is a Challenge that waits for a slot.
type Candidate struct {
	Key    types.NamespacedName
	Tenant Tenant
	Place  Place
	// Since is when it began to wait; it is later for those that have failed
	// often, so that they do not hold up new ones.
	Since time.Time
}

// retryPenalty is how much later each failure puts a Challenge, and
// maxPenalties how many failures count.
const (
	retryPenalty = 30 * time.Second
	maxPenalties = 10
)

// Candidate returns the Challenge as a candidate for a slot.
func (s Situation) Candidate() Candidate {
	since := s.Challenge.CreationTimestamp.Time
	if s.Challenge.Status.Processing {
		since = s.Now.Add(time.Duration(min(s.Memory.Tries, maxPenalties)) * retryPenalty)
	}
	return Candidate{
		Key:    types.NamespacedName{Namespace: s.Challenge.Namespace, Name: s.Challenge.Name},
		Tenant: TenantOf(s.Challenge), Place: PlaceOf(s.Challenge), Since: since,
	}
}

// Shares are the tenants' shares of the slots.
type Shares struct {
	// Busy is how many slots each tenant has.
	Busy map[Tenant]int
	// Last is when each tenant last got a slot, as a number that grows.
	Last map[Tenant]uint64
}

// compare returns which of two candidates gets a slot first: the one whose tenant has
// fewer slots, then the one whose tenant got its last slot earlier, then the one that has
// waited longer.
func (s Shares) compare(a, b Candidate) int {
	return cmp.Or(
		cmp.Compare(s.Busy[a.Tenant], s.Busy[b.Tenant]),
		cmp.Compare(s.Last[a.Tenant], s.Last[b.Tenant]),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
	)
}

// Pick returns which of the waiting candidates gets a free slot. It passes over
// those whose place is taken.
func Pick(waiting map[types.NamespacedName]Candidate, shares Shares, taken func(Candidate) bool) (next Candidate, ok bool) {
	for _, one := range waiting {
		if (!ok || shares.compare(one, next) < 0) && !taken(one) {
			next, ok = one, true
		}
	}
	return next, ok
}
