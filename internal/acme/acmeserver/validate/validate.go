// Package validate validates the challenges of the ACME server: http-01 and dns-01
// (RFC 8555 section 8), tls-alpn-01 (RFC 8737), for names and addresses (RFC 8738).
package validate

import (
	"context"
	"crypto/x509"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/acme/dnsquery"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// Challenge is the challenge to validate.
type Challenge struct {
	Type  string // of rfc8555
	Token string
	// KeyAuthorization is Token, a dot and the thumbprint of the account's key now.
	KeyAuthorization string
	Identifier       rfc8555.Identifier
	// Wildcard is set if the identifier is the name below a "*.".
	Wildcard bool
}

// Config configures the validation of challenges. DefaultConfig returns the usual values.
type Config struct {
	// HTTPPorts are the ports for http-01, and TLSPorts the ports for tls-alpn-01. Each
	// port is tried if nothing answers at the ports before it. Port 80 comes first.
	HTTPPorts, TLSPorts []uint16
	// RedirectPorts are the permitted ports of redirects, and MaxRedirects limits how many
	// are followed.
	RedirectPorts []uint16
	MaxRedirects  int
	DNS           DNS
	// Addresses and Names limit the hosts that may be connected to.
	Addresses acmeaddress.AddressRules
	Names     acmeaddress.NameRules
	// Timeout limits the whole attempt, DialTimeout one connection.
	Timeout, DialTimeout time.Duration
	// Targets, if not nil, limit how many connections there are to one address at
	// the same time.
	Targets *fairshare.Places
	Clock   clock.PassiveClock

	// dialled, if not nil, is called with each address that is dialled.
	dialled func(netip.AddrPort)
}

// DNS selects the name servers. They are recursive resolvers that the operator has chosen,
// so any address is permitted.
type DNS struct {
	// Servers are HOST:PORT, at most four. Each server is asked if the servers before it
	// do not answer or fail. Default: those of ResolvConf, without its search list.
	Servers []string
	// TLS is set to query Servers over TLS. Roots are the CAs for that; nil means the
	// host's.
	TLS   bool
	Roots *x509.CertPool
	// ResolvConf is the file with the name servers of the host. Default:
	// /etc/resolv.conf.
	ResolvConf string
	// Hosts is the file with names of the host, which comes before its name servers.
	// With Servers it is not read. Default: /etc/hosts.
	Hosts string
	// Timeout is how long one server may take for one question.
	Timeout time.Duration
}

// DefaultConfig returns a Config without rules and without a clock.
func DefaultConfig() Config {
	return Config{
		HTTPPorts: []uint16{80}, TLSPorts: []uint16{443}, RedirectPorts: []uint16{80, 443}, MaxRedirects: 10,
		DNS:     DNS{Timeout: 3 * time.Second},
		Timeout: 10 * time.Second, DialTimeout: 5 * time.Second,
	}
}

// Result is the outcome of an attempt.
type Result struct {
	Valid bool
	// Problem is the failure for the client; nil if the challenge is valid. It contains no
	// address, and nothing that a server has sent except a TXT record.
	Problem *rfc8555.Problem
	// Final is set if another attempt would be useless.
	Final bool
	// OurFault is set if the failure was not caused by the challenge: it does not count as
	// an attempt.
	OurFault bool
	// Cause is the failure with all details, for logs and administrators.
	Cause error
	// Record is kept for audits.
	Record Record
}

// Record describes what an attempt has seen.
type Record struct {
	Time time.Time
	// Address is the last dialled address of the last host.
	Address netip.AddrPort
	// Hops are the requests of http-01, in their order.
	Hops []Hop
	// Resolver is the name server that has answered last.
	Resolver string
	// TLSVersion is the version of the last connection with TLS.
	TLSVersion string
	// SHA256 is the hash in hexadecimal of the certificate of tls-alpn-01, or of the
	// TXT record of dns-01 that is the answer.
	SHA256 string
}

// Hop is one request of http-01.
type Hop struct {
	// Site is the URL without its path.
	Site    string
	Address netip.AddrPort
	// Status is 0 without a response.
	Status int
}

// attempt is one validation.
type attempt struct {
	Challenge
	cfg    Config
	client *dnsquery.Client
	record Record
}

// Validate looks once for the answer to a challenge.
func Validate(ctx context.Context, c Challenge, cfg Config) Result {
	a := &attempt{Challenge: c, cfg: cfg, record: Record{Time: cfg.Clock.Now()}}
	a.client = dnsquery.NewClient(dnsquery.Config{Timeout: cfg.DNS.Timeout, UDPSize: udpSize, Roots: cfg.DNS.Roots})
	within, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	failed := a.look(within)
	switch {
	case failed == nil:
		return Result{Valid: true, Record: a.record}
	case ctx.Err() != nil:
		failed = &failure{kind: rfc8555.ProblemServerInternal, detail: "the validation was interrupted", ours: true, cause: failed}
	}
	return Result{Problem: failed.problem(), Final: failed.final, OurFault: failed.ours, Cause: failed, Record: a.record}
}

func (a *attempt) look(ctx context.Context) *failure {
	if !a.possible() {
		return &failure{kind: rfc8555.ProblemServerInternal, detail: "such a challenge cannot be validated", final: true}
	}
	switch a.Type {
	case rfc8555.ChallengeHTTP01:
		return a.http01(ctx)
	case rfc8555.ChallengeTLSALPN01:
		return a.tlsALPN01(ctx)
	default:
		return a.dns01(ctx)
	}
}

var (
	// names matches names in identifiers; redirects may lead to other names.
	names  = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	tokens = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// possible reports whether the server can have offered a challenge. Stored challenges have
// been checked, but they determine the addresses to dial, so they are checked again.
func (a *attempt) possible() bool {
	value := a.Identifier.Value
	if !tokens.MatchString(a.Token) || !strings.HasPrefix(a.KeyAuthorization, a.Token+".") {
		return false
	}
	switch a.Identifier.Type {
	case rfc8555.IdentifierDNS:
		if len(value) > 253 || !names.MatchString(value) {
			return false
		}
	case rfc8555.IdentifierIP:
		address, err := netip.ParseAddr(value)
		if err != nil || address.Zone() != "" || address.Is4In6() || a.Wildcard {
			return false
		}
	default:
		return false
	}
	switch a.Type {
	case rfc8555.ChallengeHTTP01, rfc8555.ChallengeTLSALPN01:
		return !a.Wildcard
	case rfc8555.ChallengeDNS01:
		return a.Identifier.Type == rfc8555.IdentifierDNS
	}
	return false
}
