package responder_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/solvertest"
)

const (
	token     = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
	key       = token + ".nP1qzpXGymHBrUEepNY9HCsQk7K8KhOypzEt62jcerQ"
	path      = "/.well-known/acme-challenge/" + token
	userAgent = "certplane-selfcheck"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func challenge(host string) *acmev1.Challenge {
	return &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1", UID: "1"},
		Spec:       acmev1.ChallengeSpec{Type: acmev1.ACMEChallengeTypeHTTP01, DNSName: host, Token: token, Key: key},
		Status:     acmev1.ChallengeStatus{Processing: true, Presented: true, PresentedAt: &metav1.Time{Time: now}},
	}
}

// fixture is a Responder that listens.
type fixture struct {
	*responder.Responder
	index    *live.Index
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
	address  string
}

// start serves on the loopback interface.
func start(t *testing.T, changes ...func(*responder.Settings)) *fixture {
	t.Helper()
	f := &fixture{index: live.NewIndex(), clock: clocktesting.NewFakeClock(now), registry: prometheus.NewRegistry()}
	f.address = solvertest.FreeAddress(t)
	settings := responder.DefaultSettings()
	settings.Listen = []string{f.address}
	for _, change := range changes {
		change(&settings)
	}
	r, err := responder.New(responder.Config{Settings: settings, Index: f.index, Metrics: f.registry, Clock: f.clock, UserAgent: userAgent})
	if err != nil {
		t.Fatal(err)
	}
	f.Responder = r
	solvertest.Serve(t, r)
	return f
}

// ask sends a request as it is written, and returns the answer and its body.
func ask(t *testing.T, address, request string) (*http.Response, string) {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	connection, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, request)
	method, _, _ := strings.Cut(request, " ")
	answer, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func get(path, host string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
}

func TestRequests(t *testing.T) {
	f := start(t, func(s *responder.Settings) { s.HealthPath = "/healthz" })
	f.index.Set(challenge("a.example.com"))
	for _, tc := range []struct {
		reason, request string
		status          int
		result          string
	}{
		{"the question", get(path, "a.example.com"), 200, "hit"},
		{"a host with a port", get(path, "a.example.com:80"), 200, "hit"},
		{"a host in another form", get(path, "A.Example.COM."), 200, "hit"},
		{"a query, which is not part of the path", get(path+"?a=b", "a.example.com"), 200, "hit"},
		{"a whole URL", get("http://a.example.com"+path, "a.example.com"), 200, "hit"},
		{"HEAD", "HEAD" + get(path, "a.example.com")[3:], 200, "hit"},
		{"a check of this program", get(path, "a.example.com", "User-Agent: "+userAgent), 200, "self-check"},
		{"another host", get(path, "b.example.com"), 404, "wrong-host"},
		{"no host", get(path, ""), 404, "wrong-host"},
		{"a client that claims another host", get(path, "b.example.com", "X-Forwarded-Host: a.example.com"), 404, "wrong-host"},
		{"POST", "POST" + get(path, "a.example.com", "Content-Length: 0")[3:], 405, "method"},
		{"OPTIONS", "OPTIONS" + get(path, "a.example.com")[3:], 405, "method"},
		{"OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n", 404, "other"},
		{"another path", get("/", "a.example.com"), 404, "other"},
		{"no token", get("/.well-known/acme-challenge/", "a.example.com"), 404, "other"},
		{"more than a token", get(path+"/", "a.example.com"), 404, "other"},
		{"one more segment", get("/.well-known/acme-challenge/a/"+token, "a.example.com"), 404, "other"},
		{"an encoded slash", get("/.well-known/acme-challenge%2F"+token, "a.example.com"), 404, "other"},
		{"an encoded slash at the end", get(path+"%2f", "a.example.com"), 404, "other"},
		{"an encoded letter", get("/.well-known/acme-challenge/%65"+token[1:], "a.example.com"), 404, "other"},
		{"an encoded dot", get("/%2ewell-known/acme-challenge/"+token, "a.example.com"), 404, "other"},
		{"segments that go up", get("/x/../.well-known/acme-challenge/"+token, "a.example.com"), 404, "other"},
		{"two slashes", get("//.well-known/acme-challenge/"+token, "a.example.com"), 404, "other"},
		{"a long path", get("/.well-known/acme-challenge/"+strings.Repeat("a", 4000), "a.example.com"), 404, "other"},
		{"the health path", get("/healthz", "10.0.0.1"), 200, "health"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			before := f.counted(t, tc.result)
			answer, body := ask(t, f.address, tc.request)
			if answer.StatusCode != tc.status {
				t.Errorf("status %s", answer.Status)
			}
			if answers := strings.Contains(body, key); answers != (tc.status == 200 && tc.result != "health" && !strings.HasPrefix(tc.request, "HEAD")) {
				t.Errorf("body %q", body)
			}
			if got := f.counted(t, tc.result); got != before+1 {
				t.Errorf("%s was counted %v times", tc.result, got-before)
			}
		})
	}
}

// counted returns how many requests had a result.
func (f *fixture) counted(t *testing.T, result string) float64 {
	t.Helper()
	all, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "certplane_acme_http01_requests_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no result %s", result)
	return 0
}

func TestMetricNames(t *testing.T) {
	f := start(t)
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// The header of an answer is exactly this.
func TestHeader(t *testing.T) {
	f := start(t)
	f.index.Set(challenge("a.example.com"))
	for _, method := range []string{"GET", "HEAD"} {
		answer, _ := ask(t, f.address, method+get(path, "a.example.com")[3:])
		answer.Header.Del("Date")
		want := http.Header{
			"Content-Type": {"application/octet-stream"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
			"Content-Length": {"87"}, "Connection": {"close"},
		}
		answer.Header.Set("Connection", "close")
		if diff := cmp.Diff(want, answer.Header); diff != "" {
			t.Errorf("%s: %s", method, diff)
		}
	}
}

func TestLimits(t *testing.T) {
	f := start(t)
	connection, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, get("/", "a.example.com", "X-Long: "+strings.Repeat("a", 20<<10)))
	if line, err := bufio.NewReader(connection).ReadString('\n'); !strings.Contains(line, " 431 ") {
		t.Errorf("a long header: %q, %v", line, err)
	}
}

// A challenge is answered for its own name only, and not after its end.
func TestIsolation(t *testing.T) {
	f := start(t)
	first, second := challenge("a.example.com"), challenge("2001:db8:0::1")
	second.UID, second.Spec.Token, second.Spec.Key = "2", "other", "other.thumbprint"
	f.index.Set(first)
	f.index.Set(second)
	for _, tc := range []struct {
		path, host, want string
	}{
		{path, "a.example.com", key},
		{"/.well-known/acme-challenge/other", "[2001:DB8::1]:80", "other.thumbprint"},
		{"/.well-known/acme-challenge/other", "a.example.com", "The challenge with this token is for another name.\n"},
		{path, "[2001:db8::1]", "The challenge with this token is for another name.\n"},
	} {
		if _, body := ask(t, f.address, get(tc.path, tc.host)); body != tc.want {
			t.Errorf("%s at %s: %q", tc.path, tc.host, body)
		}
	}
	first.Status.State = acmev1.Valid
	f.index.Set(first)
	if body := f.missed(t, 2*time.Second); !strings.HasPrefix(body, "No challenge") {
		t.Errorf("after its end: %q", body)
	}
}

// Both families of addresses are served, each for itself too.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	}
	six := l.Addr().String()
	l.Close()
	f := start(t, func(s *responder.Settings) { s.Listen = append(s.Listen, six) })
	f.index.Set(challenge("a.example.com"))
	for _, address := range []string{six, f.address} {
		if _, body := ask(t, address, get(path, "a.example.com")); body != key {
			t.Errorf("at %s: %q", address, body)
		}
	}
}

// The message of a start that fails says what to change.
func TestTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	settings := responder.DefaultSettings()
	settings.Listen = []string{taken.Addr().String()}
	r, err := responder.New(responder.Config{Settings: settings, Index: live.NewIndex(), Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Serve(t.Context())
	if want := fmt.Sprintf("acme.http01.listen[0]: listening on %q: ", taken.Addr()); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*responder.Settings)
		want   string
	}{
		{"the defaults work", func(*responder.Settings) {}, ""},
		{"no address", func(s *responder.Settings) { s.Listen = []string{"80"} }, `acme.http01.listen[0]: "80" is not HOST:PORT, unix:PATH or fd:NAME`},
		{"an address is no CIDR", func(s *responder.Settings) { s.TrustedProxies = []string{"127.0.0.1"} }, `acme.http01.trustedProxies[0]: "127.0.0.1" is not a CIDR such as 127.0.0.1/32`},
		{"it hides challenges", func(s *responder.Settings) { s.HealthPath = "/.well-known/acme-challenge/a" }, `acme.http01.healthPath: "/.well-known/acme-challenge/a" is not a path such as /healthz`},
		{"not a path", func(s *responder.Settings) { s.HealthPath = "healthz" }, `acme.http01.healthPath: "healthz" is not a path such as /healthz`},
		{"no policy", func(s *responder.Settings) { s.SelfCheck = "" }, `acme.http01.selfCheck: "" is not one of Full, Local and None`},
		{"no nameserver", func(s *responder.Settings) { s.Nameservers = []string{"a"} }, `acme.http01.nameservers[0]: "a" is not ADDRESS:PORT, such as 192.0.2.53:53 or [2001:db8::53]:53`},
	} {
		settings := responder.DefaultSettings()
		tc.change(&settings)
		got := ""
		if err := settings.Validate(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", tc.reason, got, tc.want)
		}
	}
}
