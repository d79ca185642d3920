package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"

	"github.com/certplane/certplane/internal/follow"
	"github.com/certplane/certplane/internal/pki"
)

// Credentials are the credentials for calls to an endpoint, for signers whose
// settings name no files. All of them are optional, and none is ever shown.
type Credentials struct {
	// CA has the CAs to which the endpoint's certificate must chain, in PEM.
	CA []byte
	// Certificate and Key are the client certificate, in PEM.
	Certificate, Key []byte
	// Token is sent as Authorization: Bearer.
	Token []byte
}

// client calls an endpoint with the current credentials in the files. It is
// safe for concurrent use.
type client struct {
	settings Settings
	given    bool // the credentials are not in files

	mu    sync.Mutex // guards the fields below
	files follow.Files
	http  *http.Client
	token string
}

// newClient reads the files for the first time. It calls report when the files
// become unusable, with the reason.
func newClient(settings Settings, given *Credentials, report func(context.Context, error)) (*client, error) {
	c := &client{settings: settings, given: given != nil}
	if c.given {
		return c, c.use(context.Background(), follow.Contents{Data: [][]byte{given.CA, given.Certificate, given.Key, given.Token}})
	}
	c.files = follow.Files{
		Files: []follow.File{
			{Path: settings.CAFile, What: "caFile"},
			{Path: settings.CertFile, What: "certFile"},
			{Path: settings.KeyFile, What: "keyFile"},
			{Path: settings.TokenFile, What: "tokenFile"},
		},
		Use:    c.use,
		Report: report,
		AtOnce: true, // each call reads the files
	}
	return c, c.files.Open(context.Background())
}

// current returns the client and the token for the next call. An error says why
// the current files are not used: then the result is from their previous
// content. So calls continue while a pair of files is being replaced.
func (c *client) current(ctx context.Context) (*http.Client, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if !c.given {
		err = c.files.Look(ctx)
	}
	return c.http, c.token, err
}

// use makes the next calls use other credentials.
func (c *client) use(_ context.Context, contents follow.Contents) error {
	token, err := c.parseToken(contents.Data[3])
	if err != nil {
		return err
	}
	config, err := c.tlsConfig([3][]byte(contents.Data))
	if err != nil {
		return err
	}
	c.replace(config)
	c.token = token
	return nil
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
			// A compressed answer can be larger than its size suggests.
			DisableCompression: true,
		},
		// A redirect would send the request, and the token, to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// parseToken accepts one line of printable ASCII, or nothing if no token is
// configured. No error shows any part of it.
func (c *client) parseToken(data []byte) (string, error) {
	if c.given && len(data) == 0 || !c.given && c.settings.TokenFile == "" {
		return "", nil
	}
	token := bytes.TrimSpace(data)
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(token) == 0 || bytes.ContainsFunc(token, unprintable) {
		from := "token"
		if !c.given {
			from = "tokenFile: " + c.settings.TokenFile
		}
		return "", fmt.Errorf("%s: must hold one line of printable ASCII", from)
	}
	return string(token), nil
}
