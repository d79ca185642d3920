// Package listener is where strangers reach the ACME server: its port, its
// certificate, and the limits of its connections.
package listener

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// field is the path of the settings.
const field = "acmeServer"

// off as an address means that nothing is served.
const off = "0"

// Settings is the stanza "acmeServer".
type Settings struct {
	// listen is the HOST:PORT at which the ACME server listens with TLS, such as :8443. It
	// is a separate port, since unknown clients reach it. Default: "0", no ACME server.
	Listen string `json:"listen"`
	// externalURL is the URL at which clients reach the server, such as
	// https://acme.example.com, without a path. All URLs in answers begin with it. Clients
	// store these URLs, so that it is hard to change. Required with listen.
	ExternalURL string `json:"externalURL,omitempty"`
	// formerURLs are earlier values of externalURL. Clients that have stored URLs with
	// them are still answered. Default: none.
	FormerURLs []string `json:"formerURLs,omitempty"`
	// certificate is the certificate of the server.
	Certificate CertificateSettings `json:"certificate"`
	// rootsListen is the HOST:PORT at which the roots of the certificate, and nothing
	// else, are served by plain HTTP, such as :8080. The path is /acme/ENDPOINT/roots.pem.
	// It is for hosts whose tools do not connect to servers that they do not trust yet:
	// they have to compare the fingerprint, as 'certplane acme trust' does. Default: "0",
	// not served.
	RootsListen string `json:"rootsListen"`
	// trustedProxies are the networks of the proxies that pass requests on, as CIDRs such
	// as 10.0.0.0/28. The client of their requests is the last address in X-Forwarded-For
	// that does not belong to a proxy. For proxies that do not set it, such as those that
	// pass TLS on, limits per address do not apply. Default: none; then the client is the
	// peer of the connection.
	TrustedProxies []string `json:"trustedProxies,omitempty"`
	// clientAddresses are the networks from which clients may connect, as CIDRs. In
	// clusters, "certplane manifests" generates a NetworkPolicy from them. Default: all.
	ClientAddresses []string `json:"clientAddresses,omitempty"`
	// reservedNetworks are networks to which validations of challenges connect only if an
	// endpoint lists them in challenges.networks.allow, as CIDRs: in clusters the range
	// of Services and the nodes of the control plane. The addresses of the API that this
	// process reaches, and of the etcd of "certplane serve", are known without that.
	// Default: none.
	ReservedNetworks []string `json:"reservedNetworks,omitempty"`
	// peerAddress is the HOST or HOST:PORT at which the other servers of the same store
	// reach this one, to redeem the nonces that it has issued. The default port is the
	// port of listen. Default: the address of listen, or the address of the interface with
	// the default route if it listens at all of them.
	PeerAddress string `json:"peerAddress,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{Listen: off, RootsListen: off} }

// Off reports whether the ACME server is off.
func (s Settings) Off() bool { return s.Listen == off || s.Listen == "" }

// ServesRoots reports whether roots are served by plain HTTP.
func (s Settings) ServesRoots() bool {
	return !s.Off() && s.RootsListen != off && s.RootsListen != ""
}

// Host is the name or address in externalURL.
func (s Settings) Host() string {
	parsed, err := url.Parse(s.ExternalURL)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// Validate returns an error for the first invalid value, with the path of its
// field.
func (s Settings) Validate() error {
	if !s.Off() {
		if _, _, err := net.SplitHostPort(s.Listen); err != nil {
			return fmt.Errorf("%s.listen: %q is not HOST:PORT, nor 0 for none", field, s.Listen)
		}
		if s.ExternalURL == "" {
			return fmt.Errorf("%s.externalURL: missing: set the URL at which clients reach the server, such as https://acme.example.com", field)
		}
	}
	if s.ServesRoots() {
		if _, _, err := net.SplitHostPort(s.RootsListen); err != nil {
			return fmt.Errorf("%s.rootsListen: %q is not HOST:PORT, nor 0 for none", field, s.RootsListen)
		}
	}
	if s.ExternalURL != "" {
		if err := checkURL(s.ExternalURL); err != nil {
			return fmt.Errorf("%s.externalURL: %w", field, err)
		}
	}
	for i, text := range s.FormerURLs {
		if err := checkURL(text); err != nil {
			return fmt.Errorf("%s.formerURLs[%d]: %w", field, i, err)
		}
	}
	if err := s.Certificate.validate(); err != nil {
		return fmt.Errorf("%s.certificate%w", field, err)
	}
	if s.PeerAddress != "" {
		if _, err := peerAddress(s.PeerAddress, "443"); err != nil {
			return fmt.Errorf("%s.peerAddress: %w", field, err)
		}
	}
	if _, err := prefixes("trustedProxies", s.TrustedProxies); err != nil {
		return err
	}
	if _, err := prefixes("reservedNetworks", s.ReservedNetworks); err != nil {
		return err
	}
	_, err := prefixes("clientAddresses", s.ClientAddresses)
	return err
}

// Reserved returns ReservedNetworks of settings that are valid.
func (s Settings) Reserved() []netip.Prefix {
	all, _ := prefixes("reservedNetworks", s.ReservedNetworks)
	return all
}

// checkURL returns an error unless clients can be given URLs that begin with text.
func checkURL(text string) error {
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a URL", text)
	case parsed.Scheme != "https":
		return fmt.Errorf("%q must begin with https://: ACME clients use no other scheme", text)
	case parsed.Hostname() == "":
		return fmt.Errorf("%q has no host", text)
	case parsed.Path != "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil || strings.ContainsAny(text, "?#"):
		return fmt.Errorf("%q must be https:// with a host and a port alone, without a path or a slash at its end", text)
	case text != strings.ToLower(text):
		return fmt.Errorf("%q must be in lower case: clients compare URLs as texts", text)
	case parsed.Port() == "443":
		return errors.New("omit the port 443: clients omit it in the URLs that they sign")
	}
	return nil
}

func prefixes(name string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for i, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s.%s[%d]: %q is not a CIDR such as 10.0.0.0/28", field, name, i, text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}
