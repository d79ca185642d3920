package acmeissuer

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/acme/caa"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	issuingacme "github.com/certplane/certplane/internal/issuing/acme"
	"github.com/certplane/certplane/internal/policy/order"
)

// checkDomain checks whether the CA could validate a name or an address.
func (c *checker) checkDomain(ctx context.Context, domain string) {
	solvers := c.issuer.GetSpec().ACME.Solvers
	for _, doubt := range order.Doubts(orderFor(domain, c.Labels), c.issuer.GetSpec().ACME) {
		if !strings.Contains(doubt, "solver is for it") { // the next check says that
			c.add("name", domain, Warning, "the CA will probably refuse: "+doubt, "")
		}
	}
	choice := order.Choose(solvers, domain, c.Labels, offered(domain))
	if choice.Index < 0 {
		c.add("solver", domain, Failed, "no solver of the issuer can be used: "+lost(choice), "Give the issuer a solver for "+domain+" in spec.acme.solvers.")
		c.checkCAA(ctx, domain, "")
		return
	}
	method := choice.Challenge.Type
	if off := c.unanswered(method); off != "" {
		c.add("solver", domain, Failed, chosen(choice)+"; but "+off, "Set it in the configuration of the controllers, or choose another solver for the name.")
	} else {
		c.add("solver", domain, OK, chosen(choice), "")
	}
	c.checkCAA(ctx, domain, method)
	switch method {
	case rfc8555.ChallengeHTTP01:
		c.checkHTTP(ctx, domain)
	case rfc8555.ChallengeTLSALPN01:
		c.checkTLS(ctx, domain)
	default:
		c.checkDNS(ctx, domain, method, &solvers[choice.Index])
	}
}

// unanswered returns the issuer's statement that the controllers answer no challenges of
// a type; otherwise "".
func (c *checker) unanswered(method string) string {
	if condition := certmanager.IssuerCondition(c.issuer, cmv1.IssuerConditionReady); condition != nil {
		return issuingacme.NothingAnswers(condition.Message, method)
	}
	return ""
}

// orderFor returns an Order for one name or address.
func orderFor(domain string, labels map[string]string) *acmev1.Order {
	o := &acmev1.Order{}
	o.Labels = labels
	if isAddress(domain) {
		o.Spec.IPAddresses = []string{domain}
	} else {
		o.Spec.DNSNames = []string{domain}
	}
	return o
}

func isAddress(domain string) bool {
	_, err := netip.ParseAddr(domain)
	return err == nil
}

// offered returns the challenges that CAs usually offer: only an order would show those
// of a particular CA. Addresses cannot be validated by DNS (RFC 8738 section 7), and
// wildcards only by DNS.
func offered(domain string) []acmev1.ACMEChallenge {
	var all []acmev1.ACMEChallenge
	if !strings.HasPrefix(domain, "*.") {
		all = append(all, acmev1.ACMEChallenge{Type: rfc8555.ChallengeHTTP01}, acmev1.ACMEChallenge{Type: rfc8555.ChallengeTLSALPN01})
	}
	if !isAddress(domain) {
		all = append(all, acmev1.ACMEChallenge{Type: rfc8555.ChallengeDNS01}, acmev1.ACMEChallenge{Type: rfc8555.ChallengeDNSAccount01},
			acmev1.ACMEChallenge{Type: rfc8555.ChallengeDNSPersist01})
	}
	return all
}

// chosen returns the chosen solver, and the reasons against the others.
func chosen(choice order.Choice) string {
	text := choice.Candidates[choice.Index].String()
	if others := lost(choice); others != "" {
		text += "; " + others
	}
	return text
}

func lost(choice order.Choice) string {
	var all []string
	for _, c := range choice.Candidates {
		if c.Lost != order.Chosen {
			all = append(all, c.String())
		}
	}
	if len(choice.Candidates) == 0 {
		return "it has none"
	}
	return strings.Join(all, "; ")
}

// checkCAA checks whether the owner of a name lets the CA issue (RFC 8659).
func (c *checker) checkCAA(ctx context.Context, domain, method string) {
	if isAddress(domain) { // addresses have no CAA records
		return
	}
	if c.directory == nil {
		c.add("CAA", domain, Warning, "not checked, because the CA does not answer", "")
		return
	}
	at, records, err := c.Resolver.CAA(ctx, domain)
	if err != nil {
		c.add("CAA", domain, Failed, err.Error(), "The name servers of the zone must answer queries for CAA records; CAs do not issue otherwise.")
		return
	}
	wanted := caa.Wanted{Identities: c.directory.CAAIdentities, Account: c.account, Method: method, Wildcard: strings.HasPrefix(domain, "*.")}
	advised := ""
	if r := caa.Advised(wanted); r.Tag != "" {
		advised = strings.TrimPrefix(domain, "*.") + ". CAA " + r.String()
	}
	verdict, why := caa.Judge(records, wanted)
	text := "the CAA records of " + at + " " + why
	switch verdict {
	case caa.Forbidden:
		c.add("CAA", domain, Failed, text, strings.TrimSuffix("Let this CA issue with a CAA record: "+advised, ": "))
	case caa.Unsure:
		c.add("CAA", domain, Warning, text, "")
	case caa.Allowed:
		c.add("CAA", domain, OK, text, "")
	default:
		if at == "" {
			text = "no CAA record restricts which CA may issue"
		}
		if advised != "" {
			text += "; to permit only this account: " + advised
		}
		c.add("CAA", domain, OK, text, "")
	}
}

// probe is the name of the requested file. No CA creates such a token.
const probe = "certplane-acme-check"

// checkHTTP checks whether a web server answers at port 80 of each address.
func (c *checker) checkHTTP(ctx context.Context, domain string) {
	web := selfcheck.HTTP{Network: c.Network, UserAgent: c.UserAgent}
	reached, err := web.Reach(ctx, domain, probe)
	c.reached(domain, "port 80", reached, err, func(r selfcheck.Reached) (Result, string) {
		switch {
		case r.Status == http.StatusNotFound:
			return OK, "answers" + r.Via
		case r.Status < http.StatusBadRequest:
			return Warning, fmt.Sprintf("answers with the status %d%s, although no such challenge exists: does the web server pass %s to the solver?", r.Status, r.Via, rfc8555.HTTPPath)
		}
		return Warning, fmt.Sprintf("answers with the status %d%s: does the web server pass %s to the solver, without a login?", r.Status, r.Via, rfc8555.HTTPPath)
	})
}

// checkTLS checks whether something listens at port 443 of each address.
func (c *checker) checkTLS(ctx context.Context, domain string) {
	reached, err := c.Network.Reach(ctx, domain, 443)
	c.reached(domain, "port 443", reached, err, func(selfcheck.Reached) (Result, string) { return OK, "accepts connections" })
}

// reached adds the check of a port. judge returns the result for an answer.
func (c *checker) reached(domain, port string, all []selfcheck.Reached, err error, judge func(selfcheck.Reached) (Result, string)) {
	if err != nil {
		c.add(port, domain, Failed, err.Error(), "The name needs an A or AAAA record with an address where the CA can reach the server.")
		return
	}
	unreachable := 0
	for _, r := range all {
		if r.Err != nil {
			unreachable++
		}
	}
	for _, r := range all {
		result, text := Failed, ""
		advice := "From the Internet, or where the CA is, " + port + " must be reachable at each address of the name. Behind NAT, an address may be reachable from there although it is not from here."
		switch {
		case r.Err == nil:
			result, text = judge(r)
			advice = ""
		default:
			text = "no answer from here: " + r.Err.Error()
			if unreachable < len(all) {
				result = Warning // CAs may try another address
			}
		}
		if r.Private {
			text += "; a private address, which is reachable only for a CA in the same network"
			if result == OK {
				result = Warning
			}
		}
		c.add(port, domain, result, r.Address.String()+" "+text, advice)
	}
}

// checkDNS checks whether all authoritative servers answer for the name of the
// record.
func (c *checker) checkDNS(ctx context.Context, domain, method string, solver *acmev1.ACMEChallengeSolver) {
	if method == rfc8555.ChallengeDNSAccount01 && c.account == "" {
		c.add("DNS", domain, Warning, "the name of the record depends on the account, which does not exist yet", "")
		return
	}
	name := rfc8555.RecordName(method, domain, c.account)
	path, err := c.Resolver.Follow(ctx, name)
	if err != nil {
		c.add("DNS", domain, Failed, err.Error(), "The name servers must answer for "+name)
		return
	}
	asked := path[len(path)-1]
	if asked != name && solver.DNS01 != nil && solver.DNS01.CNAMEStrategy != acmev1.FollowStrategy {
		c.add("DNS", domain, Warning, fmt.Sprintf("the CA follows the CNAME record of %s to %s, but the solver writes the record at the former", name, asked),
			"Set cnameStrategy: Follow in the solver, or remove the CNAME record.")
	}
	c.checkServers(ctx, domain, asked)
	if method == rfc8555.ChallengeDNSPersist01 {
		c.add("DNS", domain, Warning, "this TXT record must exist, which was not checked: "+name+" TXT "+
			fmt.Sprintf("%q", rfc8555.PersistentRecord(c.identities(), c.account, strings.HasPrefix(domain, "*."))), "")
	}
}

func (c *checker) identities() []string {
	if c.directory == nil {
		return nil
	}
	return c.directory.CAAIdentities
}

// checkServers checks the authoritative servers of a name.
func (c *checker) checkServers(ctx context.Context, domain, asked string) {
	const advice = "CAs ask any of the authoritative servers: each must answer. The CA may reach servers that a firewall hides from this computer."
	zone, err := c.Resolver.Zone(ctx, asked)
	if err != nil {
		c.add("DNS", domain, Failed, err.Error(), "The name must be in a zone that exists, and the solver needs the right to change it.")
		return
	}
	views, err := c.Resolver.AuthoritativeTXT(ctx, asked)
	if err != nil {
		c.add("DNS", domain, Failed, err.Error(), advice)
		return
	}
	var wrong []string
	for _, v := range views {
		if v.Err != nil {
			wrong = append(wrong, v.Server+": "+v.Err.Error())
		}
	}
	text := fmt.Sprintf("authoritative servers of the zone %s that answer: %d of %d", zone, len(views)-len(wrong), len(views))
	switch {
	case len(wrong) == 0:
		c.add("DNS", domain, OK, text, "")
	case len(wrong) < len(views):
		c.add("DNS", domain, Warning, text+"; "+strings.Join(wrong, "; "), advice)
	default:
		c.add("DNS", domain, Failed, text+"; "+strings.Join(wrong, "; "), advice)
	}
}
