package vault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

const (
	// idleTimeout is how long a connection is kept for the next call.
	idleTimeout = 90 * time.Second
	// maxHeader is the maximum size of the header of an answer, in bytes.
	maxHeader = 64 << 10
	// maxConnections is how many connections there are to one server.
	maxConnections = 10
)

// metadataServices are addresses of the metadata services of clouds that are not
// link-local.
var metadataServices = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254")}

// guard says which addresses may be dialled.
type guard struct{ loopback, linkLocal bool }

// check refuses an address, after names have been resolved.
func (g guard) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case !g.linkLocal && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || slices.Contains(metadataServices, ip)):
		return fmt.Errorf("%s is a link-local address, which no issuer may use: certManager.vault.allowLinkLocal allows it", ip)
	case !g.loopback && (ip.IsLoopback() || ip.IsUnspecified()):
		return fmt.Errorf("%s is a loopback address, which only ClusterIssuers may use: certManager.vault.allowLoopback allows it for Issuers", ip)
	}
	return nil
}

// dial returns a DialContext that refuses addresses. The proxy of this process
// is the operator's choice.
func (g guard) dial(proxy string) func(ctx context.Context, network, address string) (net.Conn, error) {
	guarded := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.check(address) }}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if proxy != "" && address == proxy {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}

// checkProxied refuses a server that is reached by way of a proxy and named by
// an address.
func (g guard) checkProxied(server *url.URL) error {
	if ip, err := netip.ParseAddr(server.Hostname()); err == nil {
		return g.check(netip.AddrPortFrom(ip, 0).String())
	}
	return nil
}

// newTransport returns what connects to servers. Only the proxy is taken from
// the environment.
func newTransport(config *tls.Config, g guard, server *url.URL) (*http.Transport, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: server})
	if err != nil {
		return nil, fmt.Errorf("reading the proxy from the environment: %w", err)
	}
	by := ""
	if proxy != nil {
		if err := g.checkProxied(server); err != nil {
			return nil, err
		}
		by = hostPort(proxy)
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            g.dial(by),
		TLSClientConfig:        config,
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConnections,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		// A compressed answer can be larger than its size suggests.
		DisableCompression: true,
	}, nil
}

// hostPort returns the address of a proxy as it is dialled.
func hostPort(proxy *url.URL) string {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// newClient returns an HTTP client that follows no redirects: call does that.
func newClient(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tlsConfig must show nothing of the keys: not in errors either.
func (c connection) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.serverName}
	if len(c.bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.bundle) {
			return nil, errors.New("no Vault CA bundles loaded, check bundle contents")
		}
	}
	for _, pair := range c.pairs {
		certificate, err := tls.X509KeyPair(pair.certificate, pair.key)
		if err != nil {
			return nil, fmt.Errorf("error reading client certificate: %w", err)
		}
		config.Certificates = append(config.Certificates, certificate)
	}
	return config, nil
}

// target returns where a redirect leads. A server sends calls to another member
// of its cluster, which proves itself by the issuer's CA bundle.
func (s *server) target(from *url.URL, response *http.Response) (*url.URL, error) {
	to, err := from.Parse(response.Header.Get("Location"))
	switch {
	case err != nil || response.Header.Get("Location") == "" || to.Host == "":
		return nil, fmt.Errorf("%s redirects to an address that cannot be used", from.Host)
	case to.Scheme != "https":
		return nil, fmt.Errorf("%s redirects to %s without TLS, which would show the token", from.Host, to.Host)
	case to.Host != from.Host && !s.ownCAs:
		return nil, fmt.Errorf("%s redirects to %s, which gets no token without a CA bundle in the issuer by which it proves itself", from.Host, to.Host)
	}
	to.User, to.Fragment = nil, ""
	return to, nil
}
