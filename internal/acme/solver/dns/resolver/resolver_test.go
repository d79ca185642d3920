package resolver

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
)

// newResolver asks the given servers. Those that do not answer cost 200 ms.
func newResolver(servers ...string) *Resolver {
	return New(Config{Nameservers: servers, Timeout: 200 * time.Millisecond, Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))})
}

const soa = " 300 IN SOA ns.example.com. admin.example.com. 1 3600 600 86400 60"

func assertError(t *testing.T, err error, want string) {
	t.Helper()
	if got := fmt.Sprint(err); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(got, want)) {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestZone(t *testing.T) {
	tests := []struct {
		reason  string
		records []string
		fault   dnstest.Fault // for SOA of example.com.
		name    string
		want    string
		err     string
	}{
		{reason: "the zone's own name", records: []string{"example.com." + soa}, name: "example.com.", want: "example.com."},
		{reason: "two labels that do not exist", records: []string{"example.com." + soa}, name: "_acme-challenge.www.example.com.", want: "example.com."},
		{
			reason:  "an empty non-terminal on the way",
			records: []string{"example.com." + soa, "x._acme-challenge.www.example.com. 60 IN A 192.0.2.1"},
			name:    "_acme-challenge.www.example.com.", want: "example.com.",
		},
		{
			reason:  "a delegated zone",
			records: []string{"example.com." + soa, "sub.example.com." + soa},
			name:    "_acme-challenge.www.sub.example.com.", want: "sub.example.com.",
		},
		{
			reason:  "a CNAME at the name, to a zone's own name",
			records: []string{"example.com." + soa, "other.test." + soa, "_acme-challenge.example.com. 60 IN CNAME other.test."},
			name:    "_acme-challenge.example.com.", want: "example.com.",
		},
		{
			reason:  "a wildcard CNAME",
			records: []string{"example.com." + soa, "other.test." + soa, "*.example.com. 60 IN CNAME other.test."},
			name:    "_acme-challenge.a.example.com.", want: "example.com.",
		},
		{reason: "upper case", records: []string{"Example.COM." + soa}, name: "www.EXAMPLE.com.", want: "example.com."},
		{
			reason: "no zone at all", records: []string{"test." + soa}, name: "a.example.com.",
			err: "Could not find the SOA record in the DNS tree for the domain 'a.example.com.' using nameservers [",
		},
		{
			reason: "SERVFAIL", records: []string{"com." + soa}, fault: dnstest.Rcode(dns.RcodeServerFailure), name: "www.example.com.",
			err: "When querying the SOA record for the domain 'example.com.' using nameservers [%s], rcode was expected to be 'NOERROR' or 'NXDOMAIN', but got 'SERVFAIL'",
		},
		{
			reason: "REFUSED", records: []string{"com." + soa}, fault: dnstest.Rcode(dns.RcodeRefused), name: "example.com.",
			err: "but got 'REFUSED'",
		},
		{
			reason: "a server that names an unrelated zone", records: []string{"com." + soa},
			fault: dnstest.Reply(func(reply *dns.Msg) { reply.Answer = []dns.RR{newRR(t, "bank.test."+soa)} }),
			name:  "www.example.com.", want: "com.",
		},
		{
			reason: "a reply to another question", records: []string{"com." + soa},
			fault: dnstest.Reply(func(reply *dns.Msg) { reply.Question[0].Name = "bank.test." }), name: "example.com.",
			err: "the reply is for another question",
		},
		{reason: "no reply", fault: dnstest.Silent, name: "example.com.", err: "asking %s for SOA of example.com.: no reply over tcp in time"},
		{reason: "over TCP when truncated", records: []string{"example.com." + soa}, fault: dnstest.TruncatedOverUDP, name: "a.example.com.", want: "example.com."},
		{reason: "over TCP when UDP is lost", records: []string{"example.com." + soa}, fault: dnstest.SilentOverUDP, name: "a.example.com.", want: "example.com."},
		{reason: "an unreadable reply", fault: dnstest.Raw([]byte("xx")), name: "example.com.", err: "asking %s for SOA of example.com."},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			server := dnstest.Start(t, dnstest.Options{}, tc.records...)
			server.Break("example.com.", dns.TypeSOA, tc.fault)
			got, err := newResolver(server.Addr).Zone(t.Context(), tc.name)
			assertError(t, err, strings.ReplaceAll(tc.err, "%s", server.Addr))
			if got != tc.want {
				t.Errorf("zone %q, want %q", got, tc.want)
			}
		})
	}
}

func newRR(t *testing.T, record string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(record)
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

func TestFollow(t *testing.T) {
	tests := []struct {
		reason  string
		records []string
		fault   dnstest.Fault // for b.test.
		want    []string
		err     string
	}{
		{reason: "no CNAME", want: []string{"a.test."}},
		{reason: "one, in other case", records: []string{"A.Test. 60 IN CNAME B.test."}, want: []string{"a.test.", "b.test."}},
		{
			reason:  "two, into another zone",
			records: []string{"a.test. 60 IN CNAME b.test.", "b.test. 60 IN CNAME c.example.com."},
			want:    []string{"a.test.", "b.test.", "c.example.com."},
		},
		{
			reason: "a wildcard", records: []string{"*.test. 60 IN CNAME a.example.com."},
			want: []string{"a.test.", "a.example.com."},
		},
		{
			reason: "to itself", records: []string{"a.test. 60 IN CNAME a.test."},
			err: `Found recursive CNAME record to "a.test." when looking up "a.test."`,
		},
		{
			reason: "a loop of two", records: []string{"a.test. 60 IN CNAME b.test.", "b.test. 60 IN CNAME a.test."},
			err: `Found recursive CNAME record to "a.test." when looking up "b.test."`,
		},
		{
			reason: "a failure ends the walk", records: []string{"a.test. 60 IN CNAME b.test."},
			fault: dnstest.Rcode(dns.RcodeServerFailure), want: []string{"a.test.", "b.test."},
		},
		{
			reason: "no reply is an error", records: []string{"a.test. 60 IN CNAME b.test."},
			fault: dnstest.Silent, err: "asking %s for CNAME of b.test.: no reply",
		},
		{reason: "a chain without an end", records: chain(40), err: `"a.test." leads through more than 16 CNAME records`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			server := dnstest.Start(t, dnstest.Options{}, tc.records...)
			server.Break("b.test.", dns.TypeCNAME, tc.fault)
			got, err := newResolver(server.Addr).Follow(t.Context(), "a.test.")
			assertError(t, err, strings.ReplaceAll(tc.err, "%s", server.Addr))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
		})
	}
}

func chain(length int) []string {
	records := []string{"a.test. 60 IN CNAME n0.test."}
	for i := range length {
		records = append(records, fmt.Sprintf("n%d.test. 60 IN CNAME n%d.test.", i, i+1))
	}
	return records
}

// TestQueries: what recursive servers are asked.
func TestQueries(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, "example.com."+soa)
	if _, err := newResolver(server.Addr).Zone(t.Context(), "example.com."); err != nil {
		t.Fatal(err)
	}
	want := []dnstest.Query{{Name: "example.com.", Type: dns.TypeSOA, Recurse: true, EDNS0: 4096}}
	if diff := cmp.Diff(want, server.Queries()); diff != "" {
		t.Errorf("queries (-want +got):\n%s", diff)
	}
}

// TestNextServer: servers that fail do not keep others from being asked.
func TestNextServer(t *testing.T) {
	for reason, fault := range map[string]dnstest.Fault{
		"silent": dnstest.Silent, "SERVFAIL": dnstest.Rcode(dns.RcodeServerFailure), "garbage": dnstest.Raw([]byte{1, 2, 3}),
	} {
		bad := dnstest.Start(t, dnstest.Options{})
		bad.Break("", dns.TypeNone, fault)
		good := dnstest.Start(t, dnstest.Options{}, "example.com."+soa)
		zone, err := newResolver(bad.Addr, good.Addr).Zone(t.Context(), "example.com.")
		if zone != "example.com." || err != nil {
			t.Errorf("%s: zone %q, error %v", reason, zone, err)
		}
	}
}

// TestSilentServerComesLast: a dead server costs its time-outs once, and is asked
// again when the others fail.
func TestSilentServerComesLast(t *testing.T) {
	dead := dnstest.Start(t, dnstest.Options{}, "b.example.com. 60 IN CNAME c.example.com.")
	dead.Break("", dns.TypeNone, dnstest.Silent)
	good := dnstest.Start(t, dnstest.Options{}, "a.example.com. 60 IN CNAME b.example.com.")
	r := newResolver(dead.Addr, good.Addr)
	for range 3 {
		if target, err := r.CNAME(t.Context(), "a.example.com."); err != nil || target != "b.example.com." {
			t.Fatal(target, err)
		}
	}
	if got := len(dead.Queries()); got != 2 {
		t.Errorf("the dead server got %d queries, want one over UDP and one over TCP", got)
	}
	good.Break("", dns.TypeNone, dnstest.Silent)
	dead.Break("", dns.TypeNone, nil)
	for range 2 {
		if target, err := r.CNAME(t.Context(), "b.example.com."); err != nil || target != "c.example.com." {
			t.Error(target, err)
		}
	}
	if got := len(good.Queries()); got != 3+2 {
		t.Errorf("the server that died got %d queries, want 5", got)
	}
}

// TestCache: SOA records are kept for their TTL; that there is none is not kept.
func TestCache(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, "example.com."+soa)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	r := New(Config{Nameservers: []string{server.Addr}, Clock: clock})
	asked := func() int {
		before := len(server.Queries())
		if zone, err := r.Zone(t.Context(), "www.example.com."); err != nil || zone != "example.com." {
			t.Fatal(zone, err)
		}
		return len(server.Queries()) - before
	}
	if got := asked(); got != 2 {
		t.Errorf("%d queries at first, want 2", got)
	}
	clock.SetTime(clock.Now().Add(299 * time.Second))
	if got := asked(); got != 1 {
		t.Errorf("%d queries before the TTL ends, want 1: only for www, which is no zone", got)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if got := asked(); got != 2 {
		t.Errorf("%d queries when the TTL has ended, want 2", got)
	}
}

func TestCacheIsBounded(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := newCache[int](clock)
	for i := range 3 * maxEntries {
		c.put(fmt.Sprint(i), i, 4e9)
		if len(c.entries) > maxEntries {
			t.Fatalf("%d entries", len(c.entries))
		}
	}
	if _, ok := c.get(fmt.Sprint(3*maxEntries - 1)); !ok {
		t.Error("the last entry is gone")
	}
	clock.SetTime(clock.Now().Add(maxAge))
	if _, ok := c.get(fmt.Sprint(3*maxEntries - 1)); ok {
		t.Error("a TTL of many years counts")
	}
}

func TestHTTPS(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, "example.com."+soa)
	tests := []struct {
		reason  string
		handler http.HandlerFunc
		err     string
	}{
		{reason: "a good server", handler: server.ServeHTTP},
		{reason: "not found", handler: http.NotFound, err: "the reply has the status 404, not 200"},
		{reason: "another type", handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, err: "the reply is not of type application/dns-message"},
		{reason: "a huge reply", handler: message(make([]byte, 128<<10+1)), err: "the reply has more than 131072 bytes"},
		{reason: "garbage", handler: message([]byte("garbage")), err: "reading the reply"},
		{
			reason: "a redirect", handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
			},
			err: "the reply has the status 307, not 200",
		},
		{reason: "slow", handler: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is the end of the connection seen
			<-r.Context().Done()
		}, err: "no reply over HTTPS in time"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			endpoint := httptest.NewTLSServer(tc.handler)
			defer endpoint.Close()
			roots := x509.NewCertPool()
			roots.AddCert(endpoint.Certificate())
			r := New(Config{
				Nameservers: []string{endpoint.URL + "/dns-query"}, Roots: roots, Timeout: time.Second / 2,
				Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)),
			})
			zone, err := r.Zone(t.Context(), "example.com.")
			assertError(t, err, tc.err)
			if err == nil && zone != "example.com." {
				t.Errorf("zone %q", zone)
			}
		})
	}
	untrusting := httptest.NewTLSServer(http.HandlerFunc(server.ServeHTTP))
	defer untrusting.Close()
	_, err := newResolver(untrusting.URL).Zone(t.Context(), "example.com.")
	assertError(t, err, "certificate signed by unknown authority")
}

func message(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/dns-message")
		_, _ = w.Write(body)
	}
}

func TestNameservers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("search test\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason string
		cfg    Config
		want   []string
	}{
		{"those of the configuration", Config{Nameservers: []string{"192.0.2.9:5353"}, ResolvConf: file}, []string{"192.0.2.9:5353"}},
		{"those of the host", Config{ResolvConf: file}, []string{"192.0.2.1:53", "[fe80::1%eth0]:53"}},
		{"a host without any", Config{ResolvConf: filepath.Join(t.TempDir(), "none")}, []string{"8.8.8.8:53", "8.8.4.4:53"}},
	} {
		if diff := cmp.Diff(tc.want, New(tc.cfg).Nameservers()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// TestContextEnds: nobody waits longer than the caller does.
func TestContextEnds(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{})
	server.Break("", dns.TypeNone, dnstest.Silent)
	r := New(Config{Nameservers: []string{server.Addr, server.Addr}, Timeout: time.Minute, Clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := r.Zone(ctx, "a.b.c.d.e.example.com."); err == nil {
		t.Error("no error")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// authoritative starts servers at 127.0.0.2, 127.0.0.3 ... with one port.
func authoritative(t *testing.T, count int, records ...string) (servers []*dnstest.Server, port string) {
	t.Helper()
	port = "0"
	for i := range count {
		server := dnstest.Start(t, dnstest.Options{IP: fmt.Sprintf("127.0.0.%d", i+2), Port: port, Authoritative: true}, records...)
		servers, port = append(servers, server), server.Port
	}
	return servers, port
}

func TestAuthoritativeTXT(t *testing.T) {
	const name = "_acme-challenge.example.com."
	servers, port := authoritative(t, 3, "example.com."+soa, name+` 60 IN TXT "va" "lue"`, name+` 60 IN TXT "other"`)
	servers[1].Break(name, dns.TypeTXT, dnstest.Rcode(dns.RcodeRefused))
	servers[2].Break(name, dns.TypeTXT, dnstest.Reply(func(*dns.Msg) {}))
	recursive := dnstest.Start(t, dnstest.Options{},
		"example.com."+soa,
		"example.com. 60 IN NS NS1.example.com.", "example.com. 60 IN NS ns2.example.com.", "example.com. 60 IN NS ns3.example.com.",
		"example.com. 60 IN NS ns4.example.com.", "example.com. 60 IN NS ns1.example.com.",
		"ns1.example.com. 60 IN A 127.0.0.2", "ns1.example.com. 60 IN AAAA 100::1",
		"ns2.example.com. 60 IN A 127.0.0.3", "ns3.example.com. 60 IN A 127.0.0.4",
	)
	r := newResolver(recursive.Addr)
	r.cfg.Port = port
	views, err := r.AuthoritativeTXT(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, view := range views {
		got = append(got, fmt.Sprintf("%s %q %v", view.Server, view.Values, view.Err))
	}
	want := []string{
		fmt.Sprintf(`ns1.example.com.:%s ["value" "other"] <nil>`, port),
		fmt.Sprintf(`ns2.example.com.:%s [] NS ns2.example.com.:%s returned REFUSED for %s`, port, port, name),
		fmt.Sprintf(`ns3.example.com.:%s [] NS ns3.example.com.:%s is not authoritative for %s`, port, port, name),
		fmt.Sprintf(`ns4.example.com.:%s [] ns4.example.com. has no address`, port),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
	if query := servers[0].Queries()[0]; query.Recurse {
		t.Error("an authoritative server is asked to recurse")
	}
}

func TestAuthoritativeTXTOverIPv6(t *testing.T) {
	probe, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this host: %v", err)
	}
	probe.Close()
	server := dnstest.Start(t, dnstest.Options{IP: "::1", Authoritative: true}, "example.com. 60 IN TXT v")
	recursive := dnstest.Start(t, dnstest.Options{}, "example.com."+soa, "example.com. 60 IN NS ns.test.", "ns.test. 60 IN AAAA ::1")
	r := newResolver(recursive.Addr)
	r.cfg.Port = server.Port
	views, err := r.AuthoritativeTXT(t.Context(), "example.com.")
	if err != nil || len(views) != 1 || views[0].Err != nil || len(views[0].Values) != 1 {
		t.Errorf("views %v, error %v", views, err)
	}
}

func TestAuthoritativeTXTWithoutServers(t *testing.T) {
	server := dnstest.Start(t, dnstest.Options{}, "example.com."+soa)
	_, err := newResolver(server.Addr).AuthoritativeTXT(t.Context(), "a.example.com.")
	assertError(t, err, `Could not determine authoritative nameservers for "a.example.com."`)
	_, err = newResolver(server.Addr).AuthoritativeTXT(t.Context(), "a.test.")
	assertError(t, err, `Could not determine the zone for "a.test.": Could not find the SOA record`)
}

// TestManyServers: a zone with a thousand servers costs no more than one with
// sixteen.
func TestManyServers(t *testing.T) {
	records := []string{"example.com." + soa}
	for i := range 100 {
		records = append(records, fmt.Sprintf("example.com. 60 IN NS ns%d.test.", i))
	}
	server := dnstest.Start(t, dnstest.Options{}, records...)
	views, err := newResolver(server.Addr).AuthoritativeTXT(t.Context(), "example.com.")
	if err != nil || len(views) != maxServers {
		t.Errorf("%d views, error %v", len(views), err)
	}
}

func TestRecursiveTXT(t *testing.T) {
	good := dnstest.Start(t, dnstest.Options{}, "a.test. 60 IN CNAME b.test.", "b.test. 60 IN TXT v", "c.test. 60 IN TXT w")
	bad := dnstest.Start(t, dnstest.Options{})
	bad.Break("", dns.TypeNone, dnstest.Rcode(dns.RcodeServerFailure))
	views := newResolver(good.Addr, bad.Addr).RecursiveTXT(t.Context(), "a.test.")
	if diff := cmp.Diff([]string{"v"}, views[0].Values); diff != "" || views[0].Err != nil {
		t.Errorf("the first (-want +got):\n%s%v", diff, views[0].Err)
	}
	assertError(t, views[1].Err, "NS "+bad.Addr+" returned SERVFAIL for a.test.")
}
