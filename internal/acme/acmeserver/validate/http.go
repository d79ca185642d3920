package validate

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

const (
	// maxBody is how much of an answer is read, and maxHeader of its header, in
	// bytes.
	maxBody   = 512
	maxHeader = 64 << 10
	userAgent = "certplane-acme"
	// httpResponse names the expected answer of a server for http-01.
	httpResponse = "HTTP response"
)

// http01 looks for the file of an http-01 challenge (RFC 8555 section 8.3).
func (a *attempt) http01(ctx context.Context) *failure {
	at := &url.URL{Scheme: "http", Host: inURL(a.Identifier.Value, ""), Path: rfc8555.HTTPPath + a.Token}
	ports := slices.Clone(a.cfg.HTTPPorts)
	slices.SortStableFunc(ports, func(a, b uint16) int { return order(a == 80) - order(b == 80) })
	seen := map[string]bool{}
	for {
		seen[at.String()] = true
		next, failed := a.hop(ctx, at, ports, len(seen) > 1)
		switch {
		case failed != nil || next == nil:
			return failed
		case seen[next.String()]:
			return brokenRedirect("redirects lead in a circle")
		case len(seen) > a.cfg.MaxRedirects:
			return brokenRedirect(fmt.Sprintf("there are more than %d redirects", a.cfg.MaxRedirects))
		}
		at, ports = next, []uint16{portOf(next)}
	}
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

// hop makes one request, to the first port that answers. It returns where the answer
// redirects to, or nil if it is the expected answer.
func (a *attempt) hop(ctx context.Context, at *url.URL, ports []uint16, redirected bool) (*url.URL, *failure) {
	site := a.Identifier.Value
	if redirected {
		site = "the server to which " + site + " redirects"
	}
	a.record.Hops = append(a.record.Hops, Hop{Site: at.Scheme + "://" + at.Host})
	now := &a.record.Hops[len(a.record.Hops)-1]
	conn, failed := a.connect(ctx, at.Hostname(), ports, site, httpResponse)
	now.Address = a.record.Address
	if failed != nil {
		return nil, failed
	}
	defer conn.Close()
	if !redirected {
		at.Host = inURL(at.Hostname(), portText(at.Scheme, conn.to.Port()))
		now.Site = at.Scheme + "://" + at.Host
	}
	var stream net.Conn = conn
	if at.Scheme == "https" {
		if stream, failed = a.overTLS(ctx, conn, at.Hostname(), site); failed != nil {
			return nil, failed
		}
	}
	response, err := get(ctx, at, stream)
	if err != nil {
		return nil, unreachable(httpResponse, site, err)
	}
	defer response.Body.Close()
	now.Status = response.StatusCode
	if isRedirect(response.StatusCode) {
		return redirect(at, response, a.cfg.RedirectPorts)
	}
	return nil, a.judge(response, site)
}

// overTLS begins TLS for a redirect to https. The certificate is not verified: it may be
// the one that is being replaced, and the content is not private (RFC 8555 section 8.3).
func (a *attempt) overTLS(ctx context.Context, conn net.Conn, host, site string) (net.Conn, *failure) {
	client := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	if err := client.HandshakeContext(ctx); err != nil {
		if isBroken(err) {
			return nil, unreachable(httpResponse, site, err)
		}
		return nil, &failure{kind: rfc8555.ProblemTLS, detail: "the TLS handshake with " + site + " fails", cause: err}
	}
	a.record.TLSVersion = tls.VersionName(client.ConnectionState().Version)
	return client, nil
}

// get makes one request on a connection, without cookies, proxy and compression.
func get(ctx context.Context, at *url.URL, stream net.Conn) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", "*/*")
	open := func(context.Context, string, string) (net.Conn, error) { return stream, nil }
	transport := &http.Transport{
		DialContext: open, DialTLSContext: open,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	return transport.RoundTrip(request)
}

// judge compares an answer with the expected one.
func (a *attempt) judge(response *http.Response, site string) *failure {
	if status := response.StatusCode; status != http.StatusOK {
		return &failure{
			kind: rfc8555.ProblemUnauthorized, detail: fmt.Sprintf("the response of %s has the status %d, not 200", site, status),
			final: status >= 400 && status < 500 && status != http.StatusNotFound,
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return unreachable(httpResponse, site, err)
	}
	long := len(body) == maxBody // what else there is, is not known
	body = bytes.TrimRight(body, " \t\r\n\v\f")
	if long || subtle.ConstantTimeCompare(body, []byte(a.KeyAuthorization)) != 1 {
		return &failure{kind: rfc8555.ProblemIncorrectResponse, detail: "the response of " + site + " is not the key authorization", final: true}
	}
	return nil
}

// inURL returns a host and a port, which can be empty, in the form of a URL.
func inURL(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return host
}
