package acmeserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
)

const (
	fetchTimeout = 15 * time.Second
	maxRoots     = 256 << 10 // bytes
)

// servedRoots are the roots that a server presents; they are not verified yet.
type servedRoots struct {
	// host is the server's name or address.
	host  string
	roots []*x509.Certificate
	// chain is the certificate chain that the server presented; nil without TLS.
	chain []*x509.Certificate
}

// rootsURL returns the URL of the roots, given the URL of a directory or of the roots.
func rootsURL(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.User != nil || (at.Scheme != "https" && at.Scheme != "http") {
		return nil, fmt.Errorf("%q is not the URL of an ACME directory, such as https://acme.example.com/acme/corp/directory", text)
	}
	base, found := strings.CutSuffix(at.Path, "/directory")
	if !found {
		base, found = strings.CutSuffix(at.Path, "/roots.pem")
	}
	if !found {
		return nil, fmt.Errorf("%q is not the URL of an ACME directory: its path is /acme/ENDPOINT/directory", text)
	}
	at.Path, at.RawQuery, at.Fragment = base+"/roots.pem", "", ""
	return at, nil
}

// fetchRoots reads the roots that a server presents. It does not verify the server's
// certificate: the caller compares fingerprints instead.
func fetchRoots(ctx context.Context, directory string) (*servedRoots, error) {
	at, err := rootsURL(directory)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", at, err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
	}
	plain := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := plain.Do(asked)
	if err != nil {
		return nil, exit.WithNext(fmt.Errorf("fetching the roots: %w", err), "Is the server running, and reachable at this URL from this host?")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, exit.WithNext(fmt.Errorf("fetching the roots: %s answers %s", at, answer.Status),
			"404: the endpoint does not exist, or the server does not publish its roots, probably because hosts trust its certificate already.")
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxRoots+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", at, err)
	}
	served := &servedRoots{host: at.Hostname()}
	if answer.TLS != nil {
		served.chain = answer.TLS.PeerCertificates
	}
	if served.roots, err = pki.ParseCertificates(body); err == nil && (len(served.roots) == 0 || len(body) > maxRoots) {
		err = errors.New("it has no certificates, or too many")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return served, nil
}

// trusted returns the roots with one of the fingerprints. It returns all roots if the
// server has proven its name with a certificate from one of these.
func (s *servedRoots) trusted(fingerprints []string, now time.Time) ([]*x509.Certificate, error) {
	var named []*x509.Certificate
	pool := x509.NewCertPool()
	for _, root := range s.roots {
		if slices.Contains(fingerprints, pki.Fingerprint(root)) {
			named = append(named, root)
			pool.AddCert(root)
		}
	}
	if len(named) == 0 {
		var shown []string
		for _, root := range s.roots {
			shown = append(shown, digests+pki.Fingerprint(root))
		}
		return nil, exit.WithNext(fmt.Errorf("the fingerprint does not match: %s presents %s", s.host, strings.Join(shown, ", ")),
			"No root is trusted. Either the fingerprint is old, or another server answers in place of this one.",
			"The administrator can read the right one with: certplane acme endpoints")
	}
	if s.proven(pool, now) {
		return s.roots, nil
	}
	return named, nil
}

// proven reports whether the server has presented a certificate for its name that one of
// these roots verifies.
func (s *servedRoots) proven(pool *x509.CertPool, now time.Time) bool {
	if len(s.chain) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, cert := range s.chain[1:] {
		between.AddCert(cert)
	}
	_, err := s.chain[0].Verify(x509.VerifyOptions{DNSName: s.host, Roots: pool, Intermediates: between, CurrentTime: now})
	return err == nil
}
