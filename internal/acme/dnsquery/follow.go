package dnsquery

import (
	"errors"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// ErrLoop means that CNAME records lead in a circle.
var ErrLoop = errors.New("CNAME records lead in a circle")

// Follow returns the names that the CNAME records in a reply lead through, from name to
// the one without a CNAME record, in lower case.
func Follow(reply *dns.Msg, name string) ([]string, error) {
	targets := map[string]string{}
	for _, rr := range reply.Answer {
		if cname, ok := rr.(*dns.CNAME); ok {
			targets[strings.ToLower(cname.Hdr.Name)] = strings.ToLower(cname.Target)
		}
	}
	path := []string{strings.ToLower(name)}
	for {
		target, ok := targets[path[len(path)-1]]
		switch {
		case !ok:
			return path, nil
		case slices.Contains(path, target):
			return nil, ErrLoop
		}
		path = append(path, target)
	}
}
