package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/certplane/certplane/internal/pki"
)

// Credentials are what an endpoint is called with, for signers whose settings
// name no files. All of them may be left out, and none is ever shown.
type Credentials struct {
	// CA is what the endpoint's certificate must chain to, in PEM.
	CA []byte
	// Certificate and Key are the client certificate, in PEM.
	Certificate, Key []byte
	// Token is sent as Authorization: Bearer.
	Token []byte
}

// client calls an endpoint with the credentials that are in the files now.
// Safe for concurrent use.
type client struct {
	settings Settings
	fixed    *Credentials // instead of files

	mu sync.Mutex // guards what follows
	// files are the contents of caFile, certFile and keyFile that http is
	// made of.
	files [3][]byte
	http  *http.Client
	token string
}

// newClient reads the files for the first time.
func newClient(settings Settings, fixed *Credentials) (*client, error) {
	c := &client{settings: settings, fixed: fixed}
	return c, c.reload()
}

// current returns what to make the next call with. An error says why that is
// not what is in the files: then it is what was in them before. So a pair of
// files that is being replaced stops nothing.
func (c *client) current() (*http.Client, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.reload()
	return c.http, c.token, err
}

func (c *client) reload() error {
	files, err := c.read()
	if err != nil {
		return err
	}
	token, err := c.readToken()
	if err != nil {
		return err
	}
	if c.http == nil || !slices.EqualFunc(files[:], c.files[:], bytes.Equal) {
		config, err := c.tlsConfig(files)
		if err != nil {
			return err
		}
		c.replace(config)
		c.files = files
	}
	c.token = token
	return nil
}

func (c *client) read() (files [3][]byte, err error) {
	if c.fixed != nil {
		return [...][]byte{c.fixed.CA, c.fixed.Certificate, c.fixed.Key}, nil
	}
	for i, file := range [...]struct{ field, path string }{
		{"caFile", c.settings.CAFile},
		{"certFile", c.settings.CertFile},
		{"keyFile", c.settings.KeyFile},
	} {
		if file.path == "" {
			continue
		}
		if files[i], err = os.ReadFile(file.path); err != nil {
			return files, fmt.Errorf("%s: %w", file.field, err)
		}
	}
	return files, nil
}

// tlsConfig must show nothing of the key: not in errors either.
func (c *client) tlsConfig(files [3][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.settings.ServerName}
	if c.settings.CAFile != "" || len(files[0]) > 0 {
		roots, err := pki.ParseBundle(files[0])
		if err != nil {
			return nil, fmt.Errorf("caFile: %s: %w", c.settings.CAFile, err)
		}
		config.RootCAs = x509.NewCertPool()
		for _, root := range roots {
			config.RootCAs.AddCert(root)
		}
	}
	if c.settings.CertFile != "" || len(files[1]) > 0 {
		pair, err := tls.X509KeyPair(files[1], files[2])
		if err != nil {
			return nil, fmt.Errorf("certFile and keyFile: %s and %s: %w", c.settings.CertFile, c.settings.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// replace makes new connections, so that no call goes out with credentials
// from before a change.
func (c *client) replace(config *tls.Config) {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        config,
			MaxConnsPerHost:        c.settings.Concurrency,
			MaxIdleConnsPerHost:    c.settings.Concurrency,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeader,
			// What is compressed can be larger than it looks.
			DisableCompression: true,
		},
		// A redirect would take the request, and the token, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// readToken returns the token.
func (c *client) readToken() (string, error) {
	switch {
	case c.fixed != nil && len(c.fixed.Token) == 0, c.fixed == nil && c.settings.TokenFile == "":
		return "", nil
	case c.fixed != nil:
		return parseToken("token", c.fixed.Token)
	}
	data, err := os.ReadFile(c.settings.TokenFile)
	if err != nil {
		return "", fmt.Errorf("tokenFile: %w", err)
	}
	return parseToken("tokenFile: "+c.settings.TokenFile, data)
}

// parseToken takes one line of printable ASCII. No error shows any part of it.
func parseToken(from string, data []byte) (string, error) {
	token := bytes.TrimSpace(data)
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) == 0 || bytes.ContainsFunc(token, unprintable) {
		return "", fmt.Errorf("%s: %w", from, errors.New("must hold one line of printable ASCII"))
	}
	return string(token), nil
}
