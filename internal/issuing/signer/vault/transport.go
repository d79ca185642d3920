package vault

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// newClient returns an HTTP client that follows no redirects: call does that.
func newClient(transport *http.Transport) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tlsConfig must not reveal the keys, not even in errors.
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
		return nil, fmt.Errorf("%s redirects to %s without TLS, which would expose the token", from.Host, to.Host)
	case to.Host != from.Host && !s.ownCAs:
		return nil, fmt.Errorf("%s redirects to %s, which does not get the token: the issuer has no CA bundle to verify it", from.Host, to.Host)
	}
	to.User, to.Fragment = nil, ""
	return to, nil
}
