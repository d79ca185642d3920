package resolver

import (
	"context"
	"fmt"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/dnsquery"
)

const (
	// udpSize is the size of answers over UDP that we accept, in bytes (EDNS0).
	udpSize = 4096
	// maxServers limits the name servers of one query: the servers in a file, and the
	// servers of a zone.
	maxServers = 16
)

// ask queries the recursive name servers, one after the other, until one of them gives an
// answer that is not a failure. If none does, it returns a failure with its code. Servers
// that did not answer are asked last from then on: waiting for them each time would leave
// no time for the others.
func (r *Resolver) ask(ctx context.Context, name string, kind uint16) (*dns.Msg, error) {
	asked := dnsquery.Question{Name: name, Type: kind, Recursive: true}
	var failure *dns.Msg
	var problems []error
	for _, server := range r.silent.last(r.Nameservers()) {
		reply, err := r.client.Exchange(ctx, server, asked)
		r.silent.set(server, err != nil && ctx.Err() == nil)
		switch {
		case err != nil:
			problems = append(problems, err)
		case dnsquery.IsAnswer(reply):
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
