//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// maxCNAMEs is how many CNAMEs are followed. The resolvers of CAs stop earlier.
const maxCNAMEs = 16

// Follow returns the names that CNAMEs lead through, from fqdn itself to the one without a
// CNAME.
func (r *Resolver) Follow(ctx context.Context, fqdn string) ([]string, error) {
	path := []string{strings.ToLower(fqdn)}
	for {
		name := path[len(path)-1]
		target, err := r.CNAME(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case target == "":
			return path, nil
		case slices.Contains(path, target):
			return nil, fmt.Errorf("Found recursive CNAME record to %q when looking up %q", target, name)
		case len(path) > maxCNAMEs:
			return nil, fmt.Errorf("%q leads through more than %d CNAME records", fqdn, maxCNAMEs)
		}
		path = append(path, target)
	}
}

// CNAME returns the target of the CNAME record of a name, in lower case; empty without
// such a record, and if the servers report a failure.
func (r *Resolver) CNAME(ctx context.Context, name string) (string, error) {
	reply, err := r.ask(ctx, name, dns.TypeCNAME)
	if err != nil || reply.Rcode != dns.RcodeSuccess {
		return "", err
	}
	for _, rr := range reply.Answer {
		if cname, ok := rr.(*dns.CNAME); ok && strings.EqualFold(cname.Hdr.Name, name) {
			return strings.ToLower(cname.Target), nil
		}
	}
	return "", nil
}
