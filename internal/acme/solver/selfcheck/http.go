package selfcheck

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

const (
	// Path is where the answers of HTTP-01 are.
	Path = rfc8555.HTTPPath
	// maxBody is the largest answer that is read, in bytes, and maxHeader the
	// largest header.
	maxBody   = 1 << 20
	maxHeader = 64 << 10
)

// HTTP checks the answers of HTTP-01 at the public addresses.
type HTTP struct {
	Network Network
	// UserAgent is the header of requests.
	UserAgent string
	// Proxy returns the proxy for a request, such as
	// http.ProxyFromEnvironment does; nil is none. Through a proxy there is one
	// view instead of one a family of addresses.
	Proxy func(*http.Request) (*url.URL, error)
}

// Check reports whether an ACME server would find the answer. If no server has
// answered, IsUnreachable is true for the error.
func (h HTTP) Check(ctx context.Context, task solver.Task) (solver.Found, error) {
	target, err := newTarget(task)
	if err != nil {
		return solver.Found{}, err
	}
	proxy, err := h.proxy(target.start)
	if err != nil {
		return solver.Found{}, fmt.Errorf("failed to perform self check GET request '%s': finding the proxy: %w", target.start, err)
	}
	if proxy != nil {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return judge([]view{{err: h.fetch(ctx, target, client{HTTP: h, proxied: true})}}, Presented(task))
	}
	views, err := h.Network.views(ctx, target.start.Hostname(), func(ctx context.Context, address netip.Addr) error {
		return h.fetch(ctx, target, client{HTTP: h, first: address})
	})
	if ctx.Err() != nil {
		return solver.Found{}, context.Cause(ctx)
	}
	if err != nil {
		return solver.Found{}, fmt.Errorf("failed to perform self check GET request '%s': %w", target.start, err)
	}
	return judge(views, Presented(task))
}

// CheckAt is Check for a server of this process, to which dial connects.
func (h HTTP) CheckAt(ctx context.Context, task solver.Task, dial func(context.Context) (net.Conn, error)) error {
	target, err := newTarget(task)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return h.fetch(ctx, target, client{HTTP: h, own: dial})
}

// proxy returns the proxy for an address, or nil.
func (h HTTP) proxy(of *url.URL) (*url.URL, error) {
	if h.Proxy == nil {
		return nil, nil
	}
	return h.Proxy(&http.Request{URL: of})
}

// target is the URL and the content that a check expects.
type target struct {
	start *url.URL
	key   []byte
}

// newTarget refuses names and tokens that cannot be in a URL: names come from users, and
// tokens from ACME servers that users choose.
func newTarget(task solver.Task) (target, error) {
	spec := task.Challenge.Spec
	host := spec.DNSName
	address, err := netip.ParseAddr(host)
	switch {
	case err == nil && address.Zone() != "":
		return target{}, fmt.Errorf("spec.dnsName: %s is an address with a zone", shown(host))
	case err == nil && address.Is6():
		host = "[" + host + "]"
	case err != nil && !names.MatchString(host):
		return target{}, fmt.Errorf("spec.dnsName: %s is not a valid DNS name", shown(host))
	}
	if !tokens.MatchString(spec.Token) {
		return target{}, fmt.Errorf("spec.token: %s is not base64url", shown(spec.Token))
	}
	return target{start: &url.URL{Scheme: "http", Host: host, Path: Path + spec.Token}, key: []byte(spec.Key)}, nil
}

var (
	names  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}\.?$`)
	tokens = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}$`)
)

// fetch looks once.
func (h HTTP) fetch(ctx context.Context, t target, c client) error {
	answer, via, err := c.follow(ctx, t.start)
	if err != nil {
		return fmt.Errorf("failed to perform self check GET request '%s': %w", t.start, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("wrong status code '%d', expected '200'%s", answer.StatusCode, via)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return fmt.Errorf("failed to read response body: %s%s", Describe(err), via)
	}
	// ACME servers ignore white space at the end.
	if !bytes.Equal(bytes.TrimRight(body, " \t\r\n"), t.key) {
		return fmt.Errorf("did not get expected response %s when querying endpoint%s", shown(string(t.key)), via)
	}
	return nil
}

// client makes the requests of one look.
type client struct {
	HTTP
	// first is the address of the first server.
	first netip.Addr
	// proxied is set if a proxy finds the servers.
	proxied bool
	// own, if not nil, connects to the only server there is.
	own func(context.Context) (net.Conn, error)
}

// follow returns the answer at an address after all redirects, and a text about
// them.
func (c client) follow(ctx context.Context, start *url.URL) (answer *http.Response, via string, err error) {
	seen := map[string]bool{}
	for at := start; ; {
		seen[at.String()] = true
		if answer, err = c.get(ctx, at, start); err != nil {
			return nil, "", atHop(at, start, err)
		}
		next, err := redirect(at, answer)
		if next == nil && err == nil {
			return answer, via, nil
		}
		_ = answer.Body.Close() // nothing of it is used
		switch {
		case err != nil:
			return nil, "", err
		case seen[next.String()]:
			return nil, "", fmt.Errorf("redirects lead in a circle, to %s", shown(next.String()))
		case len(seen) > maxRedirects:
			return nil, "", fmt.Errorf("more than %d redirects", maxRedirects)
		}
		at, via = next, " after a redirect to "+shown(next.Scheme+"://"+next.Host)
	}
}

// atHop adds to an error the URL where it occurred. After a redirect, the error does not
// mean that the server is unreachable: the first one answered.
func atHop(at, start *url.URL, err error) error {
	if at == start {
		return err
	}
	return fmt.Errorf("redirect to %s: %v", shown(at.String()), err)
}

// get makes one request, without credentials.
func (c client) get(ctx context.Context, at, start *url.URL) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, errors.New("not a valid address")
	}
	request.Header.Set("User-Agent", c.UserAgent)
	transport := &http.Transport{
		// Certificates are not verified: the challenge may be for replacing an expired
		// one. ACME servers do not verify them either.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		ResponseHeaderTimeout:  timeout,
		TLSHandshakeTimeout:    timeout,
	}
	if err := c.route(ctx, transport, at, start); err != nil {
		return nil, err
	}
	answer, err := transport.RoundTrip(request)
	if err == nil || isConnection(err) {
		return answer, err
	}
	return nil, errors.New(Describe(err))
}

// route makes a transport connect to the server at an address.
func (c client) route(ctx context.Context, transport *http.Transport, at, start *url.URL) error {
	if c.own != nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.own(ctx) }
		return nil
	}
	if c.proxied {
		transport.Proxy = c.Proxy
		if address, err := netip.ParseAddr(at.Hostname()); err == nil {
			return refusal(address, netip.Addr{})
		}
		return nil
	}
	address := c.first
	if !strings.EqualFold(at.Hostname(), start.Hostname()) {
		found, err := c.Network.lookup(ctx, at.Hostname())
		if err != nil {
			return err
		}
		address = sameFamily(found, c.first)
	}
	first := c.first
	if at == start {
		first = netip.Addr{}
	}
	if err := refusal(address, first); err != nil {
		return err
	}
	to := netip.AddrPortFrom(address, port(at))
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Network.dial(ctx, to, first) }
	return nil
}

// sameFamily prefers an address of the same family as another.
func sameFamily(all []netip.Addr, as netip.Addr) netip.Addr {
	for _, address := range all {
		if address.Is4() == as.Is4() {
			return address
		}
	}
	return all[0]
}
