// Package dnsquery asks name servers: over UDP and TCP, TLS or HTTPS.
package dnsquery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Question is a query for a server.
type Question struct {
	// Name has a final dot.
	Name string
	Type uint16
	// Recursive makes the server ask other servers.
	Recursive bool
}

func (q Question) String() string { return dns.Type(q.Type).String() + " of " + q.Name }

// Config configures how servers are asked.
type Config struct {
	// Timeout limits one exchange over UDP, TCP, TLS or HTTPS.
	Timeout time.Duration
	// UDPSize is the size of answers over UDP that are accepted, in bytes (EDNS0).
	UDPSize uint16
	// Roots are the CAs for TLS and HTTPS; nil means the host's.
	Roots *x509.CertPool
}

// Client asks servers. It is safe for concurrent use.
type Client struct {
	cfg   Config
	https *http.Client
}

// NewClient returns a Client.
func NewClient(cfg Config) *Client { return &Client{cfg: cfg, https: newHTTPClient(cfg)} }

// IsAnswer reports whether a reply is an answer, not a failure: the records, or that none
// exist.
func IsAnswer(reply *dns.Msg) bool {
	return reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError
}

// Rcode returns the code of a reply as a text.
func Rcode(reply *dns.Msg) string {
	if name, ok := dns.RcodeToString[reply.Rcode]; ok {
		return name
	}
	return fmt.Sprintf("RCODE%d", reply.Rcode)
}

// The forms of servers other than <host>:<port>, which is asked over UDP and TCP.
const (
	SchemeTLS   = "tls://" // followed by <host>:<port>: DNS over TLS (RFC 7858)
	schemeHTTPS = "https://"
)

// Exchange asks one server: <host>:<port>, tls://<host>:<port> or a URL with
// https. The reply is one to this question; it may be a failure.
func (c *Client) Exchange(ctx context.Context, server string, asked Question) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(asked.Name, asked.Type)
	query.RecursionDesired = asked.Recursive
	query.SetEdns0(c.cfg.UDPSize, false)
	call := c.overUDP
	switch {
	case strings.HasPrefix(server, SchemeTLS):
		call = c.overTLS
	case strings.HasPrefix(server, schemeHTTPS):
		call = c.overHTTPS
	}
	reply, err := call(ctx, server, query)
	if err == nil {
		err = checkReply(reply, query.Question[0])
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s for %s: %w", server, asked, err)
	}
	return reply, nil
}

// checkReply reports what is wrong with a reply. Failures may come without the
// question.
func checkReply(reply *dns.Msg, asked dns.Question) error {
	switch {
	case !reply.Response:
		return errors.New("what came is not a reply")
	case len(reply.Question) == 0 && reply.Rcode != dns.RcodeSuccess:
		return nil
	case len(reply.Question) != 1 || reply.Question[0].Qtype != asked.Qtype || !strings.EqualFold(reply.Question[0].Name, asked.Name):
		return errors.New("the reply is for another question")
	}
	return nil
}

// overUDP asks over UDP, and over TCP if the reply is truncated or does not
// come.
func (c *Client) overUDP(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	reply, _, err := (&dns.Client{Net: "udp", Timeout: c.cfg.Timeout}).ExchangeContext(ctx, query, server)
	if err == nil && !reply.Truncated || err != nil && !mayWorkOverTCP(err) {
		return reply, withoutPorts(err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	reply, _, err = (&dns.Client{Net: "tcp", Timeout: c.cfg.Timeout}).ExchangeContext(ctx, query, server)
	return reply, withoutPorts(err)
}

// overTLS asks by DNS over TLS.
func (c *Client) overTLS(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	address := strings.TrimPrefix(server, SchemeTLS)
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	client := dns.Client{Net: "tcp-tls", Timeout: c.cfg.Timeout, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.cfg.Roots, ServerName: host}}
	reply, _, err := client.ExchangeContext(ctx, query, address)
	return reply, withoutPorts(err)
}

// mayWorkOverTCP reports whether an error is a time-out, or a reply that does
// not fit.
func mayWorkOverTCP(err error) bool {
	var timeout net.Error
	var unreadable *dns.Error
	return errors.As(err, &timeout) && timeout.Timeout() || errors.As(err, &unreadable)
}

// withoutPorts returns an error without our own address, which is different
// each time: these texts are stored.
func withoutPorts(err error) error {
	var network *net.OpError
	switch {
	case err == nil || !errors.As(err, &network):
		return err
	case network.Timeout():
		return timeoutError(network.Net)
	default:
		return fmt.Errorf("%s over %s: %w", network.Op, network.Net, network.Err)
	}
}

// timeoutError is the error of a server that has not replied in time, over a
// network.
type timeoutError string

var _ net.Error = timeoutError("")

func (e timeoutError) Error() string { return "no reply over " + string(e) + " in time" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }
