package validate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// value is the answer to the challenge of all tests.
var value = func() string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}()

func TestDNS(t *testing.T) {
	const at = "_acme-challenge.a.example."
	unresolved := want{rfc8555.ProblemDNS, "the name servers do not resolve _acme-challenge.a.example", false, false}
	none := want{rfc8555.ProblemUnauthorized, "no TXT record at _acme-challenge.a.example", false, false}
	wrong := func(count int, first string) want {
		return want{rfc8555.ProblemUnauthorized, fmt.Sprintf("none of the %d TXT records at _acme-challenge.a.example has the expected value; the first is %s", count, first), false, false}
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("%s 60 IN TXT other-%02d-%s", at, i, strings.Repeat("x", 80)))
	}
	chain := func(length int) []string {
		records := []string{at + " 60 IN CNAME c1.example."}
		for i := 1; i < length; i++ {
			records = append(records, fmt.Sprintf("c%d.example. 60 IN CNAME c%d.example.", i, i+1))
		}
		return append(records, fmt.Sprintf("c%d.example. 60 IN TXT %s", length, value))
	}
	for _, tc := range []struct {
		reason        string
		records       []string
		authoritative bool // CNAME records are not followed by the server
		fault         dnstest.Fault
		want          want
	}{
		{reason: "the record", records: []string{at + " 60 IN TXT " + value}},
		{reason: "in several strings", records: []string{at + " 60 IN TXT " + value[:9] + " " + value[9:]}},
		{reason: "one of many, over TCP", records: append(many, at+" 60 IN TXT "+value)},
		{reason: "many others", records: many, want: wrong(40, `"other-00-`+strings.Repeat("x", 51)+`"`)},
		{reason: "another value", records: []string{at + ` 60 IN TXT "a \"b\" \001"`}, want: wrong(1, `"a \\\"b\\\" \\001"`)},
		{reason: "more than the value", records: []string{at + " 60 IN TXT " + value + "x"}, want: wrong(1, fmt.Sprintf("%q", value+"x"))},
		{reason: "no name", want: none},
		{reason: "no TXT record", records: []string{at + " 60 IN A 192.0.2.1"}, want: none},
		{reason: "the record of another name", fault: dnstest.Reply(func(reply *dns.Msg) {
			rr, _ := dns.NewRR("other.example. 60 IN TXT " + value)
			reply.Answer = []dns.RR{rr}
		}), want: none},
		{reason: "one CNAME record", records: chain(1)},
		{reason: "eight CNAME records", records: chain(8)},
		{reason: "nine CNAME records", records: chain(9), want: unresolved},
		{reason: "eight CNAME records that the server does not follow", records: chain(8), authoritative: true},
		{reason: "nine CNAME records that the server does not follow", records: chain(9), authoritative: true, want: unresolved},
		{reason: "a CNAME record to nothing", records: []string{at + " 60 IN CNAME b.example."}, want: none},
		{reason: "a circle", records: []string{at + " 60 IN CNAME b.example.", "b.example. 60 IN CNAME " + at}, want: unresolved},
		{reason: "a circle that the server does not follow", records: []string{at + " 60 IN CNAME b.example.", "b.example. 60 IN CNAME " + at}, authoritative: true, want: unresolved},
		{reason: "a circle of one", records: []string{at + " 60 IN CNAME " + at}, want: unresolved},
		{reason: "a reply that is cut", records: []string{at + " 60 IN TXT " + value}, fault: dnstest.TruncatedOverUDP},
		{reason: "a failure", fault: dnstest.Rcode(dns.RcodeServerFailure), want: unresolved},
		{reason: "a refusal", fault: dnstest.Rcode(dns.RcodeRefused), want: unresolved},
		{reason: "no reply", fault: dnstest.Silent, want: unresolved},
		{reason: "not DNS", fault: dnstest.Raw([]byte(secret)), want: unresolved},
		{reason: "the reply to another query", fault: dnstest.Reply(func(reply *dns.Msg) {
			reply.Id++
			rr, _ := dns.NewRR(at + " 60 IN TXT " + value)
			reply.Answer = []dns.RR{rr}
		}), want: unresolved},
		{reason: "the reply to another question", fault: dnstest.Reply(func(reply *dns.Msg) {
			reply.Question[0].Name = "b.example."
			rr, _ := dns.NewRR(at + " 60 IN TXT " + value)
			reply.Answer = []dns.RR{rr}
		}), want: unresolved},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.names = dnstest.Start(t, dnstest.Options{Authoritative: tc.authoritative}, tc.records...)
			w.names.Break(at, dns.TypeTXT, tc.fault)
			w.cfg.DNS.Servers, w.cfg.DNS.Timeout = []string{w.names.Addr}, time.Second
			if tc.want.kind == rfc8555.ProblemDNS && tc.fault != nil {
				w.cfg.DNS.Timeout = 100 * time.Millisecond
			}
			got := w.validate(t, rfc8555.ChallengeDNS01, "a.example")
			assertResult(t, got, tc.want)
			if got.Valid && (got.Record.Resolver != w.names.Addr || got.Record.SHA256 != hash([]byte(value))) {
				t.Errorf("record %+v", got.Record)
			}
			if query := w.names.Queries()[0]; query.EDNS0 != 1232 || !query.Recurse || query.TCP {
				t.Errorf("the first query is %+v", query)
			}
		})
	}
}

func TestDNSOfWildcards(t *testing.T) {
	w := newWorld(t, "_acme-challenge.a.example. 60 IN TXT "+value)
	c := challenge(rfc8555.ChallengeDNS01, "a.example")
	c.Wildcard = true
	assertResult(t, Validate(t.Context(), c, w.cfg), want{})
}

// Servers are asked in their order, until one of them knows.
func TestServers(t *testing.T) {
	good := dnstest.Start(t, dnstest.Options{}, "_acme-challenge.a.example. 60 IN TXT "+value)
	start := func(fault dnstest.Fault) *dnstest.Server {
		server := dnstest.Start(t, dnstest.Options{})
		server.Break("", dns.TypeNone, fault)
		return server
	}
	fails, silent, empty := start(dnstest.Rcode(dns.RcodeServerFailure)), start(dnstest.Silent), dnstest.Start(t, dnstest.Options{})
	none := want{rfc8555.ProblemUnauthorized, "no TXT record at _acme-challenge.a.example", false, false}
	for _, tc := range []struct {
		reason  string
		servers []string
		want    want
	}{
		{"a failure, then silence", []string{fails.Addr, silent.Addr, good.Addr}, want{}},
		{"the name of a server", []string{net.JoinHostPort("localhost", good.Port)}, want{}},
		{"nobody listens", []string{"127.0.0.1:1", good.Addr}, want{}},
		{"a server that knows of no record", []string{empty.Addr, good.Addr}, none},
		{"the fifth", []string{fails.Addr, fails.Addr, fails.Addr, fails.Addr, good.Addr}, want{rfc8555.ProblemDNS, "the name servers do not resolve _acme-challenge.a.example", false, false}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.DNS.Servers, w.cfg.DNS.Timeout = tc.servers, 200*time.Millisecond
			assertResult(t, w.validate(t, rfc8555.ChallengeDNS01, "a.example"), tc.want)
		})
	}
}

// Without servers, those of the host are asked; without these, it is our fault.
func TestServersOfHost(t *testing.T) {
	ours := want{rfc8555.ProblemServerInternal, "the server has no name servers", false, true}
	w := newWorld(t)
	w.cfg.DNS.Servers, w.cfg.DNS.ResolvConf = nil, filepath.Join(t.TempDir(), "resolv.conf")
	assertResult(t, w.validate(t, rfc8555.ChallengeDNS01, "a.example"), ours)
	if err := os.WriteFile(w.cfg.DNS.ResolvConf, []byte("search corp.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), ours)
	if err := os.WriteFile(w.cfg.DNS.ResolvConf, []byte("search corp.example\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := (&attempt{cfg: w.cfg}).servers()
	if err != nil || strings.Join(servers, " ") != "192.0.2.53:53 [2001:db8::53]:53" {
		t.Errorf("%v, %v", servers, err)
	}
}

func TestDNSOverTLS(t *testing.T) {
	own := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}}
	der, err := x509.CreateCertificate(nil, template, template, own.Public(), own)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	server := &dns.Server{Listener: listener, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		reply := new(dns.Msg).SetReply(query)
		rr, _ := dns.NewRR(query.Question[0].Name + " 60 IN TXT " + value)
		reply.Answer = []dns.RR{rr}
		_ = w.WriteMsg(reply)
	})}
	go func() { _ = server.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown() })

	w := newWorld(t)
	w.cfg.DNS.Servers, w.cfg.DNS.TLS = []string{listener.Addr().String()}, true
	assertResult(t, w.validate(t, rfc8555.ChallengeDNS01, "a.example"), want{rfc8555.ProblemDNS, "the name servers do not resolve _acme-challenge.a.example", false, false})
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg.DNS.Roots = x509.NewCertPool()
	w.cfg.DNS.Roots.AddCert(root)
	assertResult(t, w.validate(t, rfc8555.ChallengeDNS01, "a.example"), want{})
}
