package dnsquery

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxHTTPBody is the maximum size of an answer over HTTPS, in bytes.
	maxHTTPBody = 128 << 10
	// mediaType is that of DNS messages (RFC 8484 section 6).
	mediaType = "application/dns-message"
)

func newHTTPClient(cfg Config) *http.Client {
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
			ForceAttemptHTTP2:      true,
			MaxConnsPerHost:        8,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// overHTTPS asks by DNS over HTTPS (RFC 8484).
func (c *Client) overHTTPS(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	query.Id = 0 // so that caches see equal queries (RFC 8484 section 4.1)
	packed, err := query.Pack()
	if err != nil {
		return nil, fmt.Errorf("encoding the query: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server, bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", mediaType)
	request.Header.Set("Accept", mediaType)
	response, err := c.https.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	return readHTTP(response)
}

// withoutURL drops the address, which the caller's error has already.
func withoutURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return errors.New("no reply over HTTPS in time")
		}
		return withoutPorts(wrapped.Err)
	}
	return err
}

func readHTTP(response *http.Response) (*dns.Msg, error) {
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the reply has the status %d, not 200", response.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != mediaType {
		return nil, errors.New("the reply is not of type " + mediaType)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxHTTPBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the reply: %w", withoutURL(err))
	case len(body) > maxHTTPBody:
		return nil, fmt.Errorf("the reply has more than %d bytes", maxHTTPBody)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(body); err != nil {
		return nil, fmt.Errorf("reading the reply: %w", err)
	}
	return reply, nil
}
