package admissionwebhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Clients selects the API servers that may call the webhook.
type Clients struct {
	// Roots returns the roots that verify their certificates, for each
	// connection. If it is nil, no certificate is requested.
	Roots func() []*x509.Certificate
	// Names are the common names of clients that may call it. If there are
	// none, every verified client may.
	Names []string
	// Revoked, if not nil, returns why a certificate is revoked; nil if it is not. Clients are
	// refused if one that they present is, also on connections that are open.
	Revoked func(*x509.Certificate) error
}

// refusing refuses the requests of clients whose certificate is revoked.
func (c Clients) refusing(handler http.Handler) http.Handler {
	if c.Roots == nil || c.Revoked == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			if err := c.revoked(r.TLS.PeerCertificates); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// revoked returns an error if one of the certificates of a chain is revoked.
func (c Clients) revoked(chain []*x509.Certificate) error {
	for _, cert := range chain {
		if err := c.Revoked(cert); err != nil {
			return err
		}
	}
	return nil
}

// require makes connections fail if the client may not call the webhook.
func (c Clients) require(config *tls.Config) *tls.Config {
	if c.Roots == nil {
		return config
	}
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = c.verify
	return config
}

func (c Clients) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the client has presented no certificate")
	}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, root := range c.Roots() {
		options.Roots.AddCert(root)
	}
	for _, between := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(between)
	}
	client := state.PeerCertificates[0]
	chains, err := client.Verify(options)
	if err != nil {
		return fmt.Errorf("verifying the client certificate: %w", err)
	}
	if standing := func(chain []*x509.Certificate) bool { return c.Revoked == nil || c.revoked(chain) == nil }; !slices.ContainsFunc(chains, standing) {
		return c.revoked(chains[0])
	}
	if len(c.Names) > 0 && !slices.Contains(c.Names, client.Subject.CommonName) {
		return fmt.Errorf("the client certificate is of %q, which is not one of webhook.clientNames", client.Subject.CommonName)
	}
	return nil
}
