package validate

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// replies are what a site answers: start to the request of a challenge.
func replies(t *testing.T, start func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Secret", secret)
		switch {
		case r.URL.Path == "/.well-known/acme-challenge/"+token:
			start(w, r)
		case r.URL.Path == "/ok":
			fmt.Fprint(w, key)
		case strings.HasPrefix(r.URL.Path, "/count/"):
			left, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/count/"))
			if err != nil {
				t.Error(err)
			}
			to := "/ok"
			if left > 1 {
				to = "/count/" + strconv.Itoa(left-1)
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		default:
			http.Error(w, secret, http.StatusTeapot)
		}
	}
}

func TestHTTP(t *testing.T) {
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, code) }
	}
	to := func(code int, location string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, port, _ := net.SplitHostPort(r.Host)
			w.Header().Set("Location", strings.ReplaceAll(location, "%p", port))
			w.WriteHeader(code)
			fmt.Fprint(w, secret)
		}
	}
	broken := func(why string) want {
		return want{rfc8555.ProblemConnection, "a redirect cannot be followed: " + why, true, false}
	}
	unauthorized := func(code int, final bool) want {
		return want{rfc8555.ProblemUnauthorized, fmt.Sprintf("the response of a.example has the status %d, not 200", code), final, false}
	}
	incorrect := want{rfc8555.ProblemIncorrectResponse, "the response of a.example is not the key authorization", true, false}
	refused := want{rfc8555.ProblemConnection, "address not permitted", true, false}
	for _, tc := range []struct {
		reason string
		start  http.HandlerFunc
		want   want
	}{
		{"the answer", body(key), want{}},
		{"white space after it", body(key + " \t\r\n\n"), want{}},
		{"much white space after it", body(key + strings.Repeat(" ", 400)), want{}},
		{"too much white space after it", body(key + strings.Repeat(" ", 1000)), incorrect},
		{"white space before it", body(" " + key), incorrect},
		{"another answer", body(secret), incorrect},
		{"the answer for another account", body(token + ".other"), incorrect},
		{"nothing", body(""), incorrect},
		{"more than the answer", body(key + "x"), incorrect},
		{"a long answer", body(strings.Repeat("x", 1<<20)), incorrect},
		{"not found", status(404), unauthorized(404, false)},
		{"forbidden", status(403), unauthorized(403, true)},
		{"unavailable", status(503), unauthorized(503, false)},
		{"another status of success", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(203); fmt.Fprint(w, key) }, unauthorized(203, false)},

		{"301", to(301, "/ok"), want{}},
		{"302", to(302, "/ok"), want{}},
		{"307", to(307, "/ok"), want{}},
		{"308", to(308, "/ok"), want{}},
		{"303", to(303, "/ok"), unauthorized(303, false)},
		{"300", to(300, "/ok"), unauthorized(300, false)},
		{"another name", to(302, "http://b.example:%p/ok"), want{}},
		{"another name with a final dot and capitals", to(302, "HTTP://B.Example.:%p/ok#fragment"), want{}},
		{"an address", to(302, "http://127.0.0.1:%p/ok"), want{}},
		{"ten redirects", to(302, "/count/9"), want{}},
		{"eleven redirects", to(302, "/count/10"), broken("there are more than 10 redirects")},
		{"the same address", to(302, rfc8555.HTTPPath+token), broken("redirects lead in a circle")},
		{"the same address in other words", to(302, "http://A.example:%p/.well-known/acme-challenge/"+token+"#x"), broken("redirects lead in a circle")},
		{"no address", to(302, ""), broken("it has no address, or one that is too long")},
		{"a long address", to(302, "/"+strings.Repeat("x", 2000)), broken("it has no address, or one that is too long")},
		{"an address that is long with its host", to(302, "/"+strings.Repeat("x", 1990)), broken("its address is too long")},
		{"another scheme", to(302, "ftp://b.example:%p/ok"), broken("its scheme is neither http nor https")},
		{"no host", to(302, "http:ok"), broken("its host is not valid")},
		{"a file", to(302, "file:///etc/passwd"), broken("its scheme is neither http nor https")},
		{"another port", to(302, "http://b.example:22/ok"), broken("its port is not permitted")},
		{"a port that is none", to(302, "http://b.example:99999/ok"), broken("its port is not permitted")},
		{"a user", to(302, "http://a.example:%p@b.example:%p/ok"), broken("its address has a user")},
		{"a zone", to(302, "http://[fe80::1%25eth0]/ok"), broken("its host is not valid")},
		{"a number", to(302, "http://2130706433/ok"), broken("its host is not valid")},
		{"a number in base 16", to(302, "http://0x7f000001/ok"), broken("its host is not valid")},
		{"a short address", to(302, "http://127.1/ok"), broken("its host is not valid")},
		{"letters outside of ASCII", to(302, "http://b.exa\u217cmple/ok"), broken("its host is not valid")},
		{"not an address", to(302, "http://a b/"), broken("its address is not valid")},
		{"a metadata service", to(302, "http://169.254.169.254/latest/"), refused},
		{"a metadata service in disguise", to(302, "http://[::ffff:169.254.169.254]/latest/"), refused},
		{"a name of a metadata service", to(302, "http://metadata.example/latest/"), refused},
		{"a name of this host", to(302, "http://localhost:%p/ok"), refused},
		{"a name of this host, escaped", to(302, "http://%6cocalhost:%p/ok"), broken("its address is not valid")},
		{"a closed port", to(302, "http://b.example/ok"), want{rfc8555.ProblemConnection, "no HTTP response from the server to which a.example redirects", false, false}},
		{"a name that does not exist", to(302, "http://"+"missing.example/ok"), want{rfc8555.ProblemDNS, "the server to which a.example redirects has no address", false, false}},
		{"the wrong answer elsewhere", to(302, "http://b.example:%p/x"), want{rfc8555.ProblemUnauthorized, "the response of the server to which a.example redirects has the status 418, not 200", true, false}},
		{"an answer that ends early", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999")
			fmt.Fprint(w, key)
		}, want{rfc8555.ProblemConnection, "no HTTP response from a.example", false, false}},
		{"a large header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<17))
			fmt.Fprint(w, key)
		}, want{rfc8555.ProblemConnection, "no HTTP response from a.example", false, false}},
		{"a connection that ends", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want{rfc8555.ProblemConnection, "no HTTP response from a.example", false, false}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, "a.example. 60 IN A 127.0.0.1", "b.example. 60 IN A 127.0.0.1", "metadata.example. 60 IN A 169.254.169.254", "localhost. 60 IN A 127.0.0.1")
			w.site(t, "127.0.0.1", replies(t, tc.start))
			assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), tc.want)
		})
	}
}

// The certificate of a redirect to https is not verified.
func TestHTTPS(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	secure := httptest.NewTLSServer(replies(t, nil)) // for other names
	defer secure.Close()
	at := netip.MustParseAddrPort(secure.Listener.Addr().String())
	w.site(t, "127.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("https://a.example:%d/ok", at.Port()), http.StatusFound)
	})
	w.cfg.RedirectPorts = append(w.cfg.RedirectPorts, at.Port())
	got := w.validate(t, rfc8555.ChallengeHTTP01, "a.example")
	assertResult(t, got, want{})
	wanted := Record{
		Time: now, Address: at, Resolver: w.names.Addr, TLSVersion: "TLS 1.3",
		Hops: []Hop{
			{Site: "http://a.example:" + w.port(), Address: w.address, Status: 302},
			{Site: fmt.Sprintf("https://a.example:%d", at.Port()), Address: at, Status: 200},
		},
	}
	if diff := cmp.Diff(wanted, got.Record, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
	// A server without TLS.
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://a.example:"+w.port()+"/ok", http.StatusFound)
	})
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{rfc8555.ProblemTLS, "the TLS handshake with the server to which a.example redirects fails", false, false})
}

func TestHTTPRequest(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	requests := make(chan *http.Request, 1)
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, r *http.Request) {
		requests <- r
		fmt.Fprint(rw, key)
	})
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
	r := <-requests
	wanted := http.Header{"User-Agent": {"certplane-acme"}, "Accept": {"*/*"}, "Connection": {"close"}}
	if diff := cmp.Diff(wanted, r.Header); diff != "" || r.Method != http.MethodGet || r.Host != "a.example:"+w.port() || r.Proto != "HTTP/1.1" {
		t.Errorf("%s %s %s\n%s", r.Method, r.Host, r.Proto, diff)
	}
	for _, tc := range []struct{ host, port, want string }{
		{"a.example", portText("http", 80), "a.example"}, {"a.example", portText("http", 443), "a.example:443"}, {"a.example", portText("https", 443), "a.example"},
		{"2001:db8::1", portText("http", 80), "[2001:db8::1]"}, {"2001:db8::1", portText("http", 5002), "[2001:db8::1]:5002"},
	} {
		if got := inURL(tc.host, tc.port); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// An address is asked for without a name server, and is the header Host.
func TestHTTPOfAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		probe, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			t.Logf("this host has no %s: %v", address, err)
			continue
		}
		probe.Close()
		w := newWorld(t)
		hosts := make(chan string, 1)
		w.site(t, address, func(rw http.ResponseWriter, r *http.Request) {
			hosts <- r.Host
			fmt.Fprint(rw, key)
		})
		assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, address), want{})
		if host := <-hosts; host != net.JoinHostPort(address, w.port()) {
			t.Errorf("Host: %s", host)
		}
		if queries := w.names.Queries(); len(queries) > 0 {
			t.Errorf("queries %v", queries)
		}
	}
}

// IPv6 comes first; IPv4 is tried if no connection is opened, and only then.
func TestFamilies(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN AAAA ::1", "a.example. 60 IN A 127.0.0.1", "a.example. 60 IN A 127.0.0.2")
	w.site(t, "127.0.0.1", replies(t, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, key) }))
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
	six := netip.AddrPortFrom(netip.IPv6Loopback(), w.address.Port())
	if diff := cmp.Diff([]netip.AddrPort{six, w.address}, w.dialled(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
	// The port after the one at which nobody listens.
	w.cfg.HTTPPorts = []uint16{w.address.Port(), 1, 80}
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
	if first := w.dialled()[0]; first.Port() != 80 {
		t.Errorf("%s is the first", first)
	}
	// A server that answers wrongly is the end.
	w.names.Set(t, "a.example. 60 IN AAAA ::ffff:127.0.0.1", "a.example. 60 IN A 127.0.0.2")
	w.cfg.HTTPPorts = []uint16{w.address.Port(), 1}
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, secret, http.StatusNotFound) })
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{rfc8555.ProblemUnauthorized, "the response of a.example has the status 404, not 200", false, false})
	if dials := w.dialled(); len(dials) != 1 {
		t.Errorf("dialled %v", dials)
	}
	// Nobody listens. Of each family, one address is tried.
	w.cfg.HTTPPorts = []uint16{1}
	w.names.Set(t, "a.example. 60 IN AAAA ::ffff:127.0.0.1", "a.example. 60 IN AAAA ::ffff:127.0.0.2", "a.example. 60 IN A 127.0.0.3", "a.example. 60 IN A 127.0.0.4")
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{rfc8555.ProblemConnection, "no HTTP response from a.example", false, false})
	tried := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.3:1")}
	if diff := cmp.Diff(tried, w.dialled(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
}

// Servers that never answer for IPv6 addresses do not use up the time.
func TestSilenceForIPv6(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, key) })
	w.names.Break("a.example.", dns.TypeAAAA, dnstest.Silent)
	w.cfg.DNS.Servers = []string{w.names.Addr, w.names.Addr, w.names.Addr, w.names.Addr}
	w.cfg.DNS.Timeout, w.cfg.Timeout = 600*time.Millisecond, 2*time.Second
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
}

func TestAttempts(t *testing.T) {
	w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
	var count int
	w.site(t, "127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) {
		if count++; count < 3 {
			http.Error(rw, secret, http.StatusNotFound)
			return
		}
		fmt.Fprint(rw, key)
	})
	for range 2 {
		assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{rfc8555.ProblemUnauthorized, "the response of a.example has the status 404, not 200", false, false})
	}
	assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{})
}

// Servers that speak something else, or say nothing, look alike.
func TestOtherServers(t *testing.T) {
	for reason, speak := range map[string]func(net.Conn){
		"another protocol": func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-"+secret+"\r\n\r\n"); conn.Close() },
		"an end":           func(conn net.Conn) { conn.Close() },
		"nothing":          func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn); conn.Close() },
		"half an answer": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 87\r\n\r\n"+key[:9])
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		},
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t, "a.example. 60 IN A 127.0.0.1")
			w.listen(t, speak)
			w.cfg.Timeout = 100 * time.Millisecond
			assertResult(t, w.validate(t, rfc8555.ChallengeHTTP01, "a.example"), want{rfc8555.ProblemConnection, "no HTTP response from a.example", false, false})
		})
	}
}

// listen has connections to the port of validations handled by speak.
func (w *world) listen(t *testing.T, speak func(net.Conn)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w.address = netip.MustParseAddrPort(listener.Addr().String())
	w.cfg.HTTPPorts, w.cfg.TLSPorts = []uint16{w.address.Port()}, []uint16{w.address.Port()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go speak(conn)
		}
	}()
}
