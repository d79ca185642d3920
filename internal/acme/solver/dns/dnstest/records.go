package dnstest

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// reply answers a query from the records.
func (s *Server) reply(query *dns.Msg) *dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := query.Question[0]
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative = s.options.Authoritative
	reply.RecursionAvailable = !s.options.Authoritative
	if query.IsEdns0() != nil {
		reply.SetEdns0(dns.DefaultMsgSize, false)
	}
	for name, hops := asked.Name, 0; hops < 8; hops++ {
		found, exists := s.lookup(name, asked.Qtype)
		reply.Answer = append(reply.Answer, found...)
		if hops == 0 && !exists {
			reply.Rcode = dns.RcodeNameError
		}
		cname := target(found)
		if cname == "" || asked.Qtype == dns.TypeCNAME || s.options.Authoritative {
			break
		}
		name = cname
	}
	return reply
}

// lookup returns the records of one name, and whether the name exists. A name above others
// also exists, even without records.
func (s *Server) lookup(name string, kind uint16) (found []dns.RR, exists bool) {
	if found, exists = s.of(name, name, kind); exists {
		return found, true
	}
	below := "." + strings.ToLower(name)
	if slices.ContainsFunc(s.records, func(rr dns.RR) bool { return strings.HasSuffix(strings.ToLower(rr.Header().Name), below) }) {
		return nil, true
	}
	for offset, end := dns.NextLabel(name, 0); !end; offset, end = dns.NextLabel(name, offset) {
		if found, exists = s.of("*."+name[offset:], name, kind); exists {
			return found, true
		}
		if _, exists = s.of(name[offset:], name, kind); exists {
			break // a wildcard does not reach below a name that exists
		}
	}
	return nil, false
}

// of returns the records of owner, under another name.
func (s *Server) of(owner, name string, kind uint16) (found []dns.RR, exists bool) {
	for _, rr := range s.records {
		if !strings.EqualFold(rr.Header().Name, owner) {
			continue
		}
		exists = true
		if rr.Header().Rrtype == kind || rr.Header().Rrtype == dns.TypeCNAME {
			rr = dns.Copy(rr)
			rr.Header().Name = name
			found = append(found, rr)
		}
	}
	return found, exists
}

func target(found []dns.RR) string {
	for _, rr := range found {
		if cname, ok := rr.(*dns.CNAME); ok {
			return cname.Target
		}
	}
	return ""
}
