package selfcheck_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
)

const (
	token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	key   = token + ".nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ"
	six   = "2001:db8::1"
	four  = "192.0.2.1"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// internet is a network in which names have addresses, and addresses with a port
// have servers on the loopback interface.
type internet struct {
	names   map[string][]string
	servers map[string]string
	errs    map[string]error
}

func (i internet) network() selfcheck.Network {
	return selfcheck.Network{Resolver: i, Dial: i.dial}
}

func (i internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, address := range i.names[strings.TrimSuffix(host, ".")] {
		all = append(all, netip.MustParseAddr(address))
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return all, nil
}

func (i internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := i.errs[address]; err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	server, ok := i.servers[address]
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return (&net.Dialer{}).DialContext(ctx, network, server)
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveBytes answers each connection with these bytes.
func serveBytes(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					fmt.Fprint(c, answer)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func task(name string) solver.Task {
	ch := &acmev1.Challenge{Spec: acmev1.ChallengeSpec{DNSName: name, Token: token, Key: key, Type: acmev1.ACMEChallengeTypeHTTP01}}
	ch.Status.PresentedAt = &metav1.Time{Time: now.Add(-10 * time.Second)}
	return solver.Task{Challenge: ch, Now: now}
}

func good(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/.well-known/acme-challenge/"+token {
		fmt.Fprint(w, key)
	} else {
		w.WriteHeader(http.StatusNotFound)
	}
}

func redirectTo(location string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(status)
	}
}

const getting = "failed to perform self check GET request 'http://a.example.com/.well-known/acme-challenge/" + token + "': "

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		handler http.HandlerFunc
		want    string
	}{
		{"the key", good, ""},
		{"white space at the end, which ACME servers ignore", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, key+"\r\n") }, ""},
		{"another status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); fmt.Fprint(w, key) }, "wrong status code '404', expected '200'"},
		{"another body, which is not shown", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "internal secret") }, `did not get expected response "` + key + `" when querying endpoint`},
		{"the beginning of the key", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, token) }, `did not get expected response "` + key + `" when querying endpoint`},
		{"an endless body", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, `did not get expected response "` + key + `" when querying endpoint`},
		{"a body that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "x")
		}, "failed to read response body: connection closed by the server"},
		{"no redirect", redirectTo("/", http.StatusNotModified), "wrong status code '304', expected '200'"},
		{"a status that ACME servers do not follow", redirectTo("/", http.StatusSeeOther), getting + "redirect with the status 303, which ACME servers do not follow: use 301, 302, 307 or 308"},
		{"a redirect to nowhere", redirectTo("", http.StatusFound), getting + "redirect without the header Location"},
		{"another port", redirectTo("http://a.example.com:8080/", http.StatusFound), getting + `redirect to "http://a.example.com:8080/": ACME servers follow redirects to the ports 80 and 443 only`},
		{"an address", redirectTo("http://198.51.100.1/", http.StatusFound), getting + `redirect to "http://198.51.100.1/": ACME servers do not follow redirects to IP addresses`},
		{"an IPv6 address", redirectTo("http://[2001:db8::2]/", http.StatusFound), getting + `redirect to "http://[2001:db8::2]/": ACME servers do not follow redirects to IP addresses`},
		{"another protocol", redirectTo("file:///etc/passwd", http.StatusFound), getting + `redirect to "file:///etc/passwd": ACME servers follow redirects to http and https only`},
		{"not an address", redirectTo("http://[::1", http.StatusFound), getting + `redirect to "http://[::1", which is not a valid address`},
		{"a long address", redirectTo("/"+strings.Repeat("a", 3000), http.StatusFound), getting + "redirect to an address of 3001 bytes: ACME servers follow at most 2000"},
		{"a circle", redirectTo("/.well-known/acme-challenge/"+token, http.StatusFound), getting + `redirects lead in a circle, to "http://a.example.com/.well-known/acme-challenge/` + token + `"`},
		{"no end", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Path+"a")
			w.WriteHeader(http.StatusFound)
		}, getting + "more than 10 redirects"},
		{"a redirect to a name that does not exist", redirectTo("http://b.example.com/", http.StatusFound), getting + `redirect to "http://b.example.com/": looking up b.example.com: no such host`},
		{"a redirect to a server that does not listen", redirectTo("https://a.example.com/", http.StatusFound), getting + `redirect to "https://a.example.com/": connecting to 192.0.2.1:443: connection refused`},
		{"a redirect to the status of another page", redirectTo("/other", http.StatusMovedPermanently), ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			handler := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/other" {
					fmt.Fprint(w, key)
				} else {
					tc.handler(w, r)
				}
			}
			i := internet{names: map[string][]string{"a.example.com": {four}}, servers: map[string]string{four + ":80": serve(t, handler)}}
			_, err := selfcheck.HTTP{Network: i.network(), UserAgent: "certplane"}.Check(t.Context(), task("a.example.com"))
			solvertest.AssertError(t, err, tc.want)
			if selfcheck.IsUnreachable(err) {
				t.Error("an answer counts as none")
			}
		})
	}
}

// Bytes of a server that speaks another protocol are never in texts.
func TestOtherProtocols(t *testing.T) {
	for _, tc := range []struct{ answer, want string }{
		{"SSH-2.0-secret\r\n", "the server does not speak the protocol"},
		{"HTTP/1.1 secret\r\n\r\n", "the server does not speak the protocol"},
		{"HTTP/1.1 200 OK\r\nsecret\r\n\r\n", "the server does not speak the protocol"},
		{"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", "the server does not speak the protocol"},
		{"", "connection closed by the server"},
	} {
		i := internet{names: map[string][]string{"a.example.com": {four}}, servers: map[string]string{four + ":80": serveBytes(t, tc.answer)}}
		_, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), task("a.example.com"))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.30q: error %v", tc.answer, err)
		}
	}
}

// A redirect to HTTPS is followed, whatever its certificate is.
func TestRedirectToHTTPS(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(good))
	defer secure.Close()
	i := internet{
		names: map[string][]string{"a.example.com": {four}, "central.example.com": {"198.51.100.1"}},
		servers: map[string]string{
			four + ":80":       serve(t, redirectTo("https://user:password@central.example.com/.well-known/acme-challenge/"+token, http.StatusFound)),
			"198.51.100.1:443": secure.Listener.Addr().String(),
		},
	}
	_, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), task("a.example.com"))
	solvertest.AssertError(t, err, "")
}

// Requests have no credentials, and the name that is to be proven.
func TestRequests(t *testing.T) {
	var got *http.Request
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, token) && r.Host == "a.example.com" {
			w.Header().Set("Set-Cookie", "a=b")
			http.Redirect(w, r, "http://user:password@www.example.com/next", http.StatusFound)
			return
		}
		got = r
		fmt.Fprint(w, key)
	})
	i := internet{
		names:   map[string][]string{"a.example.com": {four}, "www.example.com": {"198.51.100.1"}},
		servers: map[string]string{four + ":80": server, "198.51.100.1:80": server},
	}
	if _, err := (selfcheck.HTTP{Network: i.network(), UserAgent: "certplane/1"}).Check(t.Context(), task("a.example.com")); err != nil {
		t.Fatal(err)
	}
	if got.Host != "www.example.com" || got.UserAgent() != "certplane/1" {
		t.Errorf("host %q, user agent %q", got.Host, got.UserAgent())
	}
	for _, name := range []string{"Authorization", "Cookie", "Referer"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("%s: %s", name, value)
		}
	}
}

// A name can point anywhere, and redirects too.
func TestAddresses(t *testing.T) {
	const refused = getting
	for _, tc := range []struct {
		reason, first, second, want string
	}{
		{"a private address, of a network with its own CA", "10.0.0.1", "", ""},
		{"a redirect inside of a private network", "10.0.0.1", "10.0.0.2", ""},
		{"a redirect from a private network", "10.0.0.1", "198.51.100.1", ""},
		{"this host, by a hosts file", "127.0.1.1", "", ""},
		{"a public redirect", "192.0.2.1", "198.51.100.1", ""},
		{"metadata of a cloud", "169.254.169.254", "", refused + "169.254.169.254 is a link-local or metadata address, which is never contacted"},
		{"a link-local address", "fe80::1", "", refused + "fe80::1 is a link-local or metadata address, which is never contacted"},
		{"metadata in IPv6", "fd00:ec2::254", "", refused + "fd00:ec2::254 is a link-local or metadata address, which is never contacted"},
		{"metadata by NAT64", "64:ff9b::a9fe:a9fe", "", refused + "64:ff9b::a9fe:a9fe is a link-local or metadata address, which is never contacted"},
		{"metadata by 6to4", "2002:a9fe:a9fe::1", "", refused + "2002:a9fe:a9fe::1 is a link-local or metadata address, which is never contacted"},
		{"metadata, mapped", "::ffff:169.254.169.254", "", refused + "169.254.169.254 is a link-local or metadata address, which is never contacted"},
		{"no address", "0.0.0.0", "", refused + "0.0.0.0 is not the address of a host"},
		{"no IPv6 address", "::", "", refused + ":: is not the address of a host"},
		{"a group", "224.0.0.1", "", refused + "224.0.0.1 is not the address of a host"},
		{"a redirect to metadata", "10.0.0.1", "169.254.169.254", refused + `redirect to "http://second.example.com/": 169.254.169.254 is a link-local or metadata address, which is never contacted`},
		{"a redirect to a private address", "192.0.2.1", "10.0.0.2", refused + `redirect to "http://second.example.com/": 10.0.0.2 is a private address: redirects from a public address to a private one are not followed`},
		{"a redirect to this host", "192.0.2.1", "127.0.0.1", refused + `redirect to "http://second.example.com/": 127.0.0.1 is a private address: redirects from a public address to a private one are not followed`},
		{"a redirect to a private address in IPv6", "2001:db8::1", "fd01::1", refused + `redirect to "http://second.example.com/": fd01::1 is a private address: redirects from a public address to a private one are not followed`},
		{"a redirect to a private address, mapped", "192.0.2.1", "::ffff:127.0.0.1", refused + `redirect to "http://second.example.com/": 127.0.0.1 is a private address: redirects from a public address to a private one are not followed`},
		{"a redirect to a private address by NAT64", "192.0.2.1", "64:ff9b::a00:1", refused + `redirect to "http://second.example.com/": 64:ff9b::a00:1 is a private address: redirects from a public address to a private one are not followed`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tc.second != "" && r.Host == "a.example.com" {
					http.Redirect(w, r, "http://second.example.com/", http.StatusFound)
					return
				}
				fmt.Fprint(w, key)
			})
			i := internet{names: map[string][]string{"a.example.com": {tc.first}}, servers: map[string]string{}}
			for _, address := range []string{tc.first, tc.second} {
				if address != "" {
					i.servers[netip.AddrPortFrom(netip.MustParseAddr(address).Unmap(), 80).String()] = server
				}
			}
			if tc.second != "" {
				i.names["second.example.com"] = []string{tc.second}
			}
			_, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), task("a.example.com"))
			solvertest.AssertError(t, err, tc.want)
		})
	}
}

func TestFamilies(t *testing.T) {
	bad := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	const six80, four80 = "[" + six + "]:80", four + ":80"
	for _, tc := range []struct {
		reason      string
		six, four   http.HandlerFunc // nil: the connection is refused
		err         error            // of IPv6 connections
		presented   time.Duration
		want, note  string
		unreachable bool
	}{
		{reason: "both answer", six: good, four: good},
		{reason: "IPv6 leads elsewhere", six: bad, four: good, presented: time.Hour, want: "IPv6 2001:db8::1: wrong status code '404', expected '200'; IPv4 192.0.2.1: the answer is there"},
		{reason: "IPv4 leads elsewhere", six: good, four: bad, presented: time.Hour, want: "IPv6 2001:db8::1: the answer is there; IPv4 192.0.2.1: wrong status code '404', expected '200'"},
		{reason: "IPv6 does not work, for now", four: good, want: "IPv6 2001:db8::1: " + getting + "connecting to [2001:db8::1]:80: connection refused; IPv4 192.0.2.1: the answer is there"},
		{reason: "IPv6 does not work; ACME servers use IPv4 then", four: good, presented: time.Minute, note: "IPv6 2001:db8::1: " + getting + "connecting to [2001:db8::1]:80: connection refused; IPv4 192.0.2.1: the answer is there"},
		{reason: "this host has no IPv6", four: good, err: syscall.ENETUNREACH, note: "IPv6 2001:db8::1: " + getting + "connecting to [2001:db8::1]:80: network is unreachable; IPv4 192.0.2.1: the answer is there"},
		{reason: "nothing is reached", want: "IPv6 2001:db8::1: " + getting + "connecting to [2001:db8::1]:80: connection refused; IPv4 192.0.2.1: " + getting + "connecting to 192.0.2.1:80: connection refused", unreachable: true},
		{reason: "one is wrong, the other not reached", four: bad, presented: time.Hour, want: "IPv6 2001:db8::1: " + getting + "connecting to [2001:db8::1]:80: connection refused; IPv4 192.0.2.1: wrong status code '404', expected '200'"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			i := internet{names: map[string][]string{"a.example.com": {four, six}}, servers: map[string]string{}, errs: map[string]error{six80: tc.err}}
			if tc.six != nil {
				i.servers[six80] = serve(t, tc.six)
			}
			if tc.four != nil {
				i.servers[four80] = serve(t, tc.four)
			}
			ask := task("a.example.com")
			ask.Challenge.Status.PresentedAt = &metav1.Time{Time: now.Add(-tc.presented)}
			found, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), ask)
			solvertest.AssertError(t, err, tc.want)
			if found.Note != tc.note {
				t.Errorf("note\n%q, want\n%q", found.Note, tc.note)
			}
			if selfcheck.IsUnreachable(err) != tc.unreachable {
				t.Errorf("unreachable: %t", !tc.unreachable)
			}
		})
	}
}

// All servers behind a name must have the answer, as far as they are asked.
func TestSeveralAddresses(t *testing.T) {
	i := internet{
		names:   map[string][]string{"a.example.com": {"192.0.2.1", "192.0.2.2"}},
		servers: map[string]string{"192.0.2.1:80": serve(t, good), "192.0.2.2:80": serve(t, http.NotFound)},
	}
	_, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), task("a.example.com"))
	solvertest.AssertError(t, err, "wrong status code '404', expected '200'")
}

func TestAddressIdentifiers(t *testing.T) {
	i := internet{servers: map[string]string{"[2001:db8::1]:80": serve(t, good), "192.0.2.1:80": serve(t, good)}}
	for _, name := range []string{six, four} {
		if _, err := (selfcheck.HTTP{Network: i.network()}).Check(t.Context(), task(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := selfcheck.HTTP{Network: i.network()}.Check(t.Context(), task("2001:db8::2"))
	solvertest.AssertError(t, err, "failed to perform self check GET request 'http://[2001:db8::2]/.well-known/acme-challenge/"+token+"': connecting to [2001:db8::2]:80: connection refused")
	if !selfcheck.IsUnreachable(err) {
		t.Error("an address that does not answer can be reached")
	}
}

// A name or a token cannot lead elsewhere.
func TestNotAURL(t *testing.T) {
	for _, tc := range []struct{ name, token string }{
		{"a.example.com:22", token}, {"a.example.com/x", token}, {"user@a.example.com", token}, {"", token}, {"fe80::1%eth0", token},
		{"a.example.com", "../../admin"}, {"a.example.com", "a?b"}, {"a.example.com", ""},
	} {
		ask := task(tc.name)
		ask.Challenge.Spec.Token = tc.token
		if _, err := (selfcheck.HTTP{Network: internet{}.network()}).Check(t.Context(), ask); err == nil || !strings.HasPrefix(err.Error(), "spec.") {
			t.Errorf("%q, %q: error %v", tc.name, tc.token, err)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer close(done)
	i := internet{names: map[string][]string{"a.example.com": {four}}, servers: map[string]string{four + ":80": serve(t, func(http.ResponseWriter, *http.Request) { cancel(); <-done })}}
	if _, err := (selfcheck.HTTP{Network: i.network()}).Check(ctx, task("a.example.com")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
