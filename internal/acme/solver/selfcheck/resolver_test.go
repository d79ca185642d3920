package selfcheck_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
)

// nameserver answers questions on the loopback interface by UDP and by TCP.
func nameserver(t *testing.T, answer func(*dns.Msg, dns.Question, bool)) string {
	t.Helper()
	packets, streams, err := dnstest.Listen("127.0.0.1", "0")
	if err != nil {
		t.Fatal(err)
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		reply := new(dns.Msg).SetReply(question)
		answer(reply, question.Question[0], w.RemoteAddr().Network() == "udp")
		_ = w.WriteMsg(reply)
	})
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: handler}, {Listener: streams, Handler: handler}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return packets.LocalAddr().String()
}

func record(t *testing.T, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func TestNameservers(t *testing.T) {
	works := nameserver(t, func(reply *dns.Msg, q dns.Question, udp bool) {
		switch {
		case q.Name == "large.example.com." && udp:
			reply.Truncated = true
		case q.Name == "missing.example.com.":
			reply.Rcode = dns.RcodeNameError
		case q.Name == "half.example.com." && q.Qtype == dns.TypeAAAA:
			reply.Rcode = dns.RcodeServerFailure
		case q.Name == "text.example.com.":
		case q.Qtype == dns.TypeA:
			reply.Answer = []dns.RR{record(t, q.Name+" 1 IN CNAME b.example.com."), record(t, "b.example.com. 1 IN A 192.0.2.1")}
		default:
			reply.Answer = []dns.RR{record(t, q.Name+" 1 IN AAAA 2001:db8::1")}
		}
	})
	fails := nameserver(t, func(reply *dns.Msg, _ dns.Question, _ bool) { reply.Rcode = dns.RcodeServerFailure })
	for _, tc := range []struct {
		reason  string
		servers []string
		name    string
		want    []string
		err     string
	}{
		{"all addresses", []string{works}, "a.example.com", []string{four, six}, ""},
		{"an answer that needs TCP", []string{works}, "large.example.com", []string{four, six}, ""},
		{"a server that fails, then one that works", []string{fails, works}, "a.example.com", []string{four, six}, ""},
		{"a zone that fails for one kind of addresses", []string{works}, "half.example.com", []string{four}, ""},
		{"a name that does not exist", []string{works}, "missing.example.com", nil, "no such host"},
		{"a name without addresses", []string{works}, "text.example.com", nil, "no A or AAAA records"},
		{"all servers fail", []string{fails}, "a.example.com", nil, "the nameserver " + fails + " answers SERVFAIL"},
		{"a name of the hosts file is looked up nevertheless", []string{works}, "localhost", []string{four, six}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			found, err := selfcheck.NewResolver(tc.servers).LookupNetIP(t.Context(), "ip", tc.name)
			var got []string
			for _, address := range found {
				got = append(got, address.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		servers []string
		want    string
	}{
		{nil, ""},
		{[]string{"192.0.2.53:53", "[2001:db8::53]:53"}, ""},
		{[]string{"192.0.2.53:53", "192.0.2.53"}, `acme.http01.nameservers[1]: "192.0.2.53" is not ADDRESS:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53`},
		{[]string{"dns.example.com:53"}, `acme.http01.nameservers[0]: "dns.example.com:53" is not ADDRESS:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53`},
	} {
		solvertest.AssertError(t, selfcheck.CheckNameservers("acme.http01.nameservers", tc.servers), tc.want)
	}
	solvertest.AssertError(t, selfcheck.Policy("full").Validate("acme.http01.selfCheck"), `acme.http01.selfCheck: "full" is not one of Full, Local and None`)
	solvertest.AssertError(t, selfcheck.Local.Validate("acme.http01.selfCheck"), "")
}

// A proxy of the environment finds the servers itself.
func TestProxy(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "a.example.com" {
			http.Error(w, "this is not a request for a proxy", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, key)
	})
	check := selfcheck.HTTP{Network: internet{}.network(), Proxy: func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: proxy}, nil }}
	if _, err := check.Check(t.Context(), task("a.example.com")); err != nil {
		t.Error(err)
	}
	if _, err := check.Check(t.Context(), task("169.254.169.254")); err == nil || !strings.Contains(err.Error(), "never contacted") {
		t.Errorf("error %v", err)
	}
}
