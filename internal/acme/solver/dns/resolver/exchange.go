package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/miekg/dns"
)

const (
	// udpSize is the size of answers over UDP that we accept, in bytes (EDNS0).
	udpSize = 4096
	// maxHTTPBody is the maximum size of an answer over HTTPS, in bytes.
	maxHTTPBody = 128 << 10
	// mediaType is that of DNS messages (RFC 8484 section 6).
	mediaType = "application/dns-message"
	// maxServers is how many name servers are asked for one thing: those that
	// a file lists, and those of a zone.
	maxServers = 16
)

// question is what a server is asked.
type question struct {
	name string
	kind uint16
	// recursive has the server ask other servers.
	recursive bool
}

func (q question) String() string { return dns.Type(q.kind).String() + " of " + q.name }

// ask asks the recursive name servers, one after the other, until one of them
// gives an answer that is no failure. Without one, it returns a failure with
// its code. Those that did not answer come last from then on: waiting for them
// each time would leave no time for the others.
func (r *Resolver) ask(ctx context.Context, name string, kind uint16) (*dns.Msg, error) {
	asked := question{name: name, kind: kind, recursive: true}
	var failure *dns.Msg
	var problems []error
	for _, server := range r.silent.last(r.Nameservers()) {
		reply, err := r.exchange(ctx, server, asked)
		r.silent.set(server, err != nil && ctx.Err() == nil)
		switch {
		case err != nil:
			problems = append(problems, err)
		case isAnswer(reply):
			return reply, nil
		case failure == nil:
			failure = reply
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failure == nil {
		return nil, joined(problems)
	}
	return failure, nil
}

// joined is errors.Join in one line.
func joined(problems []error) (all error) {
	for _, problem := range problems {
		if all == nil {
			all = problem
		} else {
			all = fmt.Errorf("%w; %w", all, problem)
		}
	}
	return all
}

func isAnswer(reply *dns.Msg) bool {
	return reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError
}

// exchange asks one server.
func (r *Resolver) exchange(ctx context.Context, server string, asked question) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(asked.name, asked.kind)
	query.RecursionDesired = asked.recursive
	query.SetEdns0(udpSize, false)
	call := r.overUDP
	if strings.HasPrefix(server, "https://") {
		call = r.overHTTPS
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
func (r *Resolver) overUDP(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
	reply, _, err := (&dns.Client{Net: "udp", Timeout: r.cfg.Timeout}).ExchangeContext(ctx, query, server)
	if err == nil && !reply.Truncated || err != nil && !mayWorkOverTCP(err) {
		return reply, withoutPorts(err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	reply, _, err = (&dns.Client{Net: "tcp", Timeout: r.cfg.Timeout}).ExchangeContext(ctx, query, server)
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
		return fmt.Errorf("no reply over %s in time", network.Net)
	default:
		return fmt.Errorf("%s over %s: %w", network.Op, network.Net, network.Err)
	}
}

// overHTTPS asks by DNS over HTTPS (RFC 8484).
func (r *Resolver) overHTTPS(ctx context.Context, server string, query *dns.Msg) (*dns.Msg, error) {
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
	response, err := r.https.Do(request)
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
