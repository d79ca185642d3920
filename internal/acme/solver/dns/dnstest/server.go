// Package dnstest has a DNS server for tests: with records, faults, dynamic
// updates and DNS over HTTPS.
package dnstest

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Options configure a server.
type Options struct {
	// IP is the address to listen on. Default: 127.0.0.1.
	IP string
	// Port is the port, for servers with different addresses and one port.
	// Default: any that is free.
	Port string
	// Authoritative servers set the bit AA, and do not follow CNAMEs.
	Authoritative bool
	// Keys are the keys of dynamic updates, by name with a final dot. With keys,
	// updates without a signature are refused.
	Keys map[string]Key
	// Updated, if not nil, is called after each dynamic update that was permitted,
	// before it is answered.
	Updated func(update *dns.Msg)
}

// Fault answers a query instead of the server's records. It reports whether it
// did; if not, the records are used.
type Fault func(w dns.ResponseWriter, query *dns.Msg) bool

// Query is a query that a server has received.
type Query struct {
	Name    string
	Type    uint16
	TCP     bool
	Recurse bool
	EDNS0   uint16 // the size
}

// Server is a DNS server over UDP and TCP on loopback.
type Server struct {
	// Addr is host:port.
	Addr string
	// Port is that of Addr.
	Port string

	options Options

	mu      sync.Mutex // guards what follows
	records []dns.RR
	faults  map[string]Fault
	queries []Query
	updates []*dns.Msg
}

// Start runs a server with these records, in the form of zone files, until the
// test ends.
func Start(t testing.TB, options Options, records ...string) *Server {
	t.Helper()
	if options.IP == "" {
		options.IP = "127.0.0.1"
	}
	if options.Port == "" {
		options.Port = "0"
	}
	udp, tcp, err := Listen(options.IP, options.Port)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: udp.LocalAddr().String(), options: options, faults: map[string]Fault{}}
	_, s.Port, _ = net.SplitHostPort(s.Addr)
	s.Set(t, records...)
	s.serve(t, &dns.Server{PacketConn: udp, UDPSize: dns.DefaultMsgSize})
	s.serve(t, &dns.Server{Listener: tcp})
	return s
}

// Listen listens at an address for both protocols. Port 0 is one that is free for both: a port
// that is free for one of them need not be free for the other.
func Listen(ip, port string) (net.PacketConn, net.Listener, error) {
	for attempt := 0; ; attempt++ {
		udp, err := net.ListenPacket("udp", net.JoinHostPort(ip, port))
		if err != nil {
			return nil, nil, err
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		if err == nil {
			return udp, tcp, nil
		}
		udp.Close()
		if attempt == 20 || port != "0" {
			return nil, nil, err
		}
	}
}

func (s *Server) serve(t testing.TB, server *dns.Server) {
	t.Helper()
	started := make(chan struct{})
	ended := make(chan error, 1)
	server.Handler = dns.HandlerFunc(s.answer)
	server.MsgAcceptFunc = func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
	server.NotifyStartedFunc = func() { close(started) }
	if len(s.options.Keys) > 0 {
		server.TsigProvider = keys(s.options.Keys)
	}
	go func() { ended <- server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-ended
	})
}

// Set replaces all records.
func (s *Server) Set(t testing.TB, records ...string) {
	t.Helper()
	parsed := make([]dns.RR, 0, len(records))
	for _, record := range records {
		rr, err := dns.NewRR(record)
		if err != nil {
			t.Fatalf("%s: %v", record, err)
		}
		parsed = append(parsed, rr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = parsed
}

// Break makes a fault answer the queries for a name and a type; for all types if kind is
// dns.TypeNone, for all names if name is empty. A nil fault ends that.
func (s *Server) Break(name string, kind uint16, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[faultKey(name, kind)] = fault
}

// TXT returns the values of the TXT records of a name, sorted.
func (s *Server) TXT(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, rr := range s.records {
		if txt, ok := rr.(*dns.TXT); ok && strings.EqualFold(txt.Hdr.Name, name) {
			values = append(values, strings.Join(txt.Txt, ""))
		}
	}
	slices.Sort(values)
	return values
}

// AllTXT returns the names that have TXT records, sorted.
func (s *Server) AllTXT() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, rr := range s.records {
		if rr.Header().Rrtype == dns.TypeTXT {
			names = append(names, rr.Header().Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Queries returns what was asked so far.
func (s *Server) Queries() []Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// Updates returns the dynamic updates so far.
func (s *Server) Updates() []*dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.updates)
}

func faultKey(name string, kind uint16) string {
	return strings.ToLower(name) + " " + dns.Type(kind).String()
}

func (s *Server) answer(w dns.ResponseWriter, query *dns.Msg) {
	if query.Opcode == dns.OpcodeUpdate {
		s.update(w, query)
		return
	}
	if len(query.Question) != 1 {
		_ = w.WriteMsg(new(dns.Msg).SetRcodeFormatError(query))
		return
	}
	fault := s.record(query, w.LocalAddr().Network() == "tcp")
	if fault != nil && fault(w, query) {
		return
	}
	_ = w.WriteMsg(s.reply(query))
}

// record notes a query. It returns the fault for it, or nil.
func (s *Server) record(query *dns.Msg, tcp bool) Fault {
	asked := query.Question[0]
	entry := Query{Name: asked.Name, Type: asked.Qtype, TCP: tcp, Recurse: query.RecursionDesired}
	if opt := query.IsEdns0(); opt != nil {
		entry.EDNS0 = opt.UDPSize()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, entry)
	for _, key := range []string{
		faultKey(asked.Name, asked.Qtype), faultKey(asked.Name, dns.TypeNone), faultKey("", asked.Qtype), faultKey("", dns.TypeNone),
	} {
		if fault := s.faults[key]; fault != nil {
			return fault
		}
	}
	return nil
}
