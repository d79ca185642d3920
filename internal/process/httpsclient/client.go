// Package httpsclient reaches HTTPS servers that are configured by an address and
// files with credentials.
package httpsclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
)

const (
	idleTimeout = 90 * time.Second
	// maxHeader is the largest header of an answer, in bytes.
	maxHeader = 64 << 10
)

// File is a file with credentials.
type File struct {
	// Path is empty if there is none.
	Path string
	// Field is the name of the setting, in errors.
	Field string
}

// Config configures the connection to a server.
type Config struct {
	// CA has the CAs to which the server's certificate must chain; without it,
	// those that this host trusts. Certificate and Key are the client certificate.
	// Token is sent as Authorization: Bearer by the caller.
	CA, Certificate, Key, Token File
	// Given are the credentials if they are in no files; nil means that they are.
	Given *Credentials
	// Present, if not nil, returns the client certificate for the next call, in
	// place of one in files. It is presented to any server that asks for one.
	Present func() (*tls.Certificate, error)
	// ServerName is the name in the server's certificate; empty means that in the
	// address.
	ServerName string
	// Connections is the maximum number of connections.
	Connections int
	// Report is called when the files become unusable, with the reason, and with
	// nil when they can be used again.
	Report func(context.Context, error)
}

// Credentials are credentials in PEM. All of them are optional, and none is ever
// shown.
type Credentials struct{ CA, Certificate, Key, Token []byte }

// Client provides the HTTP client and the token for calls, with the present contents of the
// files. It follows no redirects: they would send a request, and its token, to another
// server. It is safe for concurrent use.
type Client struct {
	cfg Config

	mu        sync.Mutex // guards all below
	files     filewatch.Files
	config    *tls.Config      // with the contents of the files
	presented *tls.Certificate // the last from cfg.Present
	http      *http.Client
	token     string
}

// New reads the files for the first time.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg}
	if given := cfg.Given; given != nil {
		return c, c.use(context.Background(), filewatch.Contents{Data: [][]byte{given.CA, given.Certificate, given.Key, given.Token}})
	}
	c.files = filewatch.Files{Use: c.use, Report: cfg.Report, AtOnce: true} // each call reads the files
	for _, f := range []File{cfg.CA, cfg.Certificate, cfg.Key, cfg.Token} {
		c.files.Files = append(c.files.Files, filewatch.File{Path: f.Path, What: f.Field})
	}
	return c, c.files.Open(context.Background())
}

// Current returns the client and the token for the next call; the token is empty if none is
// configured. If the current files cannot be used, it returns the reason, and a client and
// token from their previous contents, so that calls continue while a pair of files is being
// replaced. The client is nil if there has never been a certificate to present.
func (c *Client) Current(ctx context.Context) (*http.Client, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.cfg.Given == nil {
		err = c.files.Look(ctx)
	}
	if c.cfg.Present == nil {
		return c.http, c.token, err
	}
	certificate, missing := c.cfg.Present()
	if missing == nil && certificate != c.presented {
		c.presented = certificate
		c.replace(c.config)
	}
	if c.presented == nil {
		return nil, "", missing
	}
	return c.http, c.token, errors.Join(err, missing)
}

// use makes the next calls use other credentials. Its errors show nothing of
// them.
func (c *Client) use(_ context.Context, contents filewatch.Contents) error {
	token, err := c.parseToken(contents.Data[3])
	if err != nil {
		return err
	}
	config, err := c.tlsConfig(contents.Data[0], contents.Data[1], contents.Data[2])
	if err != nil {
		return err
	}
	c.config = config
	c.replace(config)
	c.token = token
	return nil
}

// tlsConfig must show nothing of the key: not in errors either.
func (c *Client) tlsConfig(ca, certificate, key []byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.cfg.ServerName}
	if c.cfg.CA.Path != "" || len(ca) > 0 {
		roots, err := pki.ParseBundle(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.cfg.CA.Field, c.cfg.CA.Path, err)
		}
		config.RootCAs = x509.NewCertPool()
		for _, root := range roots {
			config.RootCAs.AddCert(root)
		}
	}
	if c.cfg.Certificate.Path != "" || len(certificate) > 0 {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %s and %s: %w", c.cfg.Certificate.Field, c.cfg.Key.Field, c.cfg.Certificate.Path, c.cfg.Key.Path, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// replace makes new connections, so that no call goes out with credentials from
// before a change.
func (c *Client) replace(config *tls.Config) {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	if presented := c.presented; presented != nil {
		config = config.Clone()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return presented, nil }
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        config,
			MaxConnsPerHost:        c.cfg.Connections,
			MaxIdleConnsPerHost:    c.cfg.Connections,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: maxHeader,
			// A compressed answer can be larger than its size suggests.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// parseToken accepts one line of printable ASCII, or nothing if no token is
// configured. No error shows any part of it.
func (c *Client) parseToken(data []byte) (string, error) {
	if c.cfg.Given != nil && len(data) == 0 || c.cfg.Given == nil && c.cfg.Token.Path == "" {
		return "", nil
	}
	token := bytes.TrimSpace(data)
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) == 0 || bytes.ContainsFunc(token, unprintable) {
		from := "token"
		if c.cfg.Given == nil {
			from = c.cfg.Token.Field + ": " + c.cfg.Token.Path
		}
		return "", fmt.Errorf("%s: must hold one line of printable ASCII", from)
	}
	return string(token), nil
}
