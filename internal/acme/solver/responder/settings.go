// Package responder answers HTTP-01 challenges.
package responder

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/socket"
)

// field is the path of the settings.
const field = "acme.http01"

// Settings is the stanza "acme.http01".
type Settings struct {
	// listen is where HTTP-01 challenges are answered: a list of HOST:PORT,
	// unix:PATH, or fd:NAME for a socket that systemd opens (FileDescriptorName).
	// ACME servers ask at port 80 of each name: listen there, or have the web
	// server there pass requests for /.well-known/acme-challenge/ on to here.
	// ":80" is for IPv4 and IPv6; an address of one family is for that one only.
	// At a Unix socket all accounts of the host can ask. Each of several servers
	// answers for all. Default: none; then HTTP-01 challenges fail before the
	// ACME server is asked to look.
	Listen []string `json:"listen,omitempty"`
	// trustedProxies are the web servers that pass requests on, as CIDRs such as
	// 127.0.0.1/32. If the Host of their requests is not the name of the
	// challenge, the last value of X-Forwarded-Host counts, and the client is the
	// last address in X-Forwarded-For. What connects to a Unix socket is
	// trusted. Default: none.
	TrustedProxies []string `json:"trustedProxies,omitempty"`
	// anyHost answers whatever the Host of a request is, for web servers that
	// replace it. Tokens cannot be guessed, so that little is lost. Default:
	// false.
	AnyHost bool `json:"anyHost,omitempty"`
	// healthPath is a path that is answered with the status 200, for load
	// balancers, such as /healthz. Default: none.
	HealthPath string `json:"healthPath,omitempty"`
	// selfCheck selects what must answer before the ACME server is asked to validate:
	// Full, this server and the public address; Local, this server; None, nothing. With
	// Full, this server is enough if no connection to the public address has succeeded for
	// a minute: many networks do not let a host reach its own public address. Default:
	// Full.
	SelfCheck selfcheck.Policy `json:"selfCheck"`
	// nameservers are asked for the public addresses, ADDRESS:PORT each, in this
	// order. Default: none, which asks the resolver of the system, with the file
	// of hosts.
	Nameservers []string `json:"nameservers,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{SelfCheck: selfcheck.Full} }

// Validate returns an error for the first invalid value, with the path of its
// field.
func (s Settings) Validate() error {
	if err := socket.Check(field+".listen", s.Listen); err != nil {
		return err
	}
	if _, err := s.proxies(); err != nil {
		return err
	}
	if path := s.HealthPath; path != "" && (!strings.HasPrefix(path, "/") || strings.HasPrefix(path, selfcheck.Path) || strings.ContainsAny(path, "?#% ")) {
		return fmt.Errorf("%s.healthPath: %q is not a path such as /healthz", field, path)
	}
	if err := s.SelfCheck.Validate(field + ".selfCheck"); err != nil {
		return err
	}
	return selfcheck.CheckNameservers(field+".nameservers", s.Nameservers)
}

// Off reports whether nothing answers.
func (s Settings) Off() bool { return len(s.Listen) == 0 }

func (s Settings) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for i, text := range s.TrustedProxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s.trustedProxies[%d]: %q is not a CIDR such as 127.0.0.1/32", field, i, text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}
