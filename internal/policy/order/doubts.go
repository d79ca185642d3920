package order

import (
	"fmt"
	"net"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// usualLimit is how many names most CAs accept in one certificate.
const usualLimit = 100

// Doubts returns why a CA will probably refuse an Order. It is asked
// nevertheless: it may be less strict than most.
func Doubts(o *acmev1.Order, issuer *acmev1.ACMEIssuer) []string {
	var all []string
	asked := NewOrder(acmev1.OrderSpec{CommonName: o.Spec.CommonName, DNSNames: o.Spec.DNSNames, IPAddresses: o.Spec.IPAddresses}, o.CreationTimestamp.Time)
	switch count := len(asked.Identifiers); {
	case count == 0:
		all = append(all, "the request has no DNS names and no IP addresses")
	case count > usualLimit:
		all = append(all, fmt.Sprintf("the request has %d names and addresses, and most CAs accept %d", count, usualLimit))
	}
	for _, id := range asked.Identifiers {
		if why := doubt(id, issuer.Solvers, o.Labels); why != "" && len(all) < 10 {
			all = append(all, why)
		}
	}
	return all
}

// doubt returns why a CA will probably refuse an identifier; "" if it will not.
func doubt(id rfc8555.Identifier, solvers []acmev1.ACMEChallengeSolver, labels map[string]string) string {
	plain := strings.TrimPrefix(id.Value, "*.")
	switch {
	case id.Type == rfc8555.IdentifierIP && !solves(solvers, id.Value, labels, rfc8555.ChallengeHTTP01, rfc8555.ChallengeTLSALPN01):
		return fmt.Sprintf("the address %s cannot be validated by DNS, and no HTTP-01 or TLS-ALPN-01 solver is for it", id.Value)
	case id.Type == rfc8555.IdentifierIP:
		return ""
	case plain != id.Value && !solves(solvers, id.Value, labels, rfc8555.ChallengeDNS01, rfc8555.ChallengeDNSAccount01, rfc8555.ChallengeDNSPersist01):
		return fmt.Sprintf("the wildcard %s can only be validated by DNS, and no DNS-01 solver is for it", id.Value)
	case strings.Contains(plain, "_"):
		return fmt.Sprintf("the name %s has an underscore, which no public CA accepts", id.Value)
	case !strings.Contains(plain, ".") || net.ParseIP(plain) != nil:
		return fmt.Sprintf("%s is not a full DNS name", id.Value)
	}
	return ""
}

// solves reports whether the solver for a domain has one of these types, if the
// CA offers them all.
func solves(solvers []acmev1.ACMEChallengeSolver, domain string, labels map[string]string, kinds ...string) bool {
	var offered []acmev1.ACMEChallenge
	for _, kind := range kinds {
		offered = append(offered, acmev1.ACMEChallenge{Type: kind})
	}
	return slices.ContainsFunc(Choose(solvers, domain, labels, offered).Candidates, func(c Candidate) bool { return c.Lost == Chosen })
}
