package resolver

import (
	"context"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/caa"
	"github.com/certplane/certplane/internal/acme/dnsquery"
)

// CAA returns the CAA records that are relevant for a name, and the name that has them:
// the name itself or the nearest one above it with CAA records (RFC 8659 section 3). at is
// empty if no name has any. It returns an error if a server fails on the way, since CAs do
// not issue then.
func (r *Resolver) CAA(ctx context.Context, name string) (at string, records []caa.Record, err error) {
	name = dns.Fqdn(strings.ToLower(strings.TrimPrefix(name, "*.")))
	for _, offset := range dns.Split(name) {
		reply, err := r.ask(ctx, name[offset:], dns.TypeCAA)
		switch {
		case err != nil:
			return "", nil, err
		case !dnsquery.IsAnswer(reply):
			return "", nil, fmt.Errorf("looking up the CAA records of %s: the name servers answer %s", name[offset:], dnsquery.Rcode(reply))
		}
		for _, rr := range reply.Answer { // those at the end of CNAME records, too
			if record, ok := rr.(*dns.CAA); ok {
				records = append(records, caa.Record{Critical: record.Flag&128 != 0, Tag: record.Tag, Value: record.Value})
			}
		}
		if len(records) > 0 {
			return name[offset:], records, nil
		}
	}
	return "", nil, nil
}
