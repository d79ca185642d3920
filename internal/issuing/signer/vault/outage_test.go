package vault_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

// metric returns one of the metrics.
func (w *world) metric(t *testing.T, name string) prometheus.Collector {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name}, func() float64 {
				if m := family.GetMetric()[0]; m.GetGauge() != nil {
					return m.GetGauge().GetValue()
				}
				return family.GetMetric()[0].GetCounter().GetValue()
			})
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

// While a server is away, requests wait almost without calls. When it answers
// again, all that wait are told.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	var changes atomic.Int32
	w.pool.Subscribe(func(s vault.Server) {
		if s != (vault.Server{Namespace: "ns", URL: w.URL}) {
			t.Errorf("told of %v", s)
		}
		changes.Add(1)
	})
	i := w.issuer(nil)
	w.mustSign(t, i)
	w.With(func(s *vaulttest.State) { s.Health = http.StatusServiceUnavailable })
	before := len(w.Calls())
	for range 50 {
		if _, err := w.sign(t, i); kind(err) != "unavailable" {
			t.Fatal(err)
		}
	}
	if calls := len(w.Calls()) - before; calls != breaker.TripAfter || changes.Load() != 1 {
		t.Errorf("%d calls, told %d times", calls, changes.Load())
	}
	if err := w.pool.Verify(t.Context(), i, w.access()); !vault.Temporary(err) || kind(err) != "unavailable" {
		t.Errorf("verifying: %v", err)
	}
	if away := testutil.ToFloat64(w.metric(t, "certplane_vault_unavailable")); away != 1 {
		t.Errorf("unavailable is %v", away)
	}
	w.With(func(s *vaulttest.State) { s.Health = 0 })
	w.clock.Step(breaker.OpenFor)
	for range 10 {
		w.mustSign(t, i)
	}
	if changes.Load() != 2 || w.Count("/login") != 1 {
		t.Errorf("told %d times, %d logins", changes.Load(), w.Count("/login"))
	}
	if away := testutil.ToFloat64(w.metric(t, "certplane_vault_unavailable")); away != 0 {
		t.Errorf("unavailable is %v", away)
	}
}

// What issuers of one namespace do to a server does not keep others from it.
func TestOutageOfOneTenant(t *testing.T) {
	w := newWorld(t)
	w.With(func(s *vaulttest.State) {
		s.Answer = func(rw http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
			if c.Path == "/v1/broken" {
				vaulttest.Fail(rw, http.StatusInternalServerError, "internal error")
			}
			return c.Path == "/v1/broken"
		}
	})
	for range 20 {
		_, _ = w.sign(t, w.issuer(func(i *vault.Issuer) { i.Path = "broken" }))
	}
	w.mustSign(t, w.issuer(func(i *vault.Issuer) { i.UID, i.SecretNamespace = "uid-2", "other" }))
}

func TestOutcomes(t *testing.T) {
	tests := []struct {
		reason string
		status int
		header string
		errors []string
		want   string
	}{
		{"the role refuses", 400, "", []string{"common name x not allowed by this role"}, "refused"},
		{"an unknown mount", 404, "", []string{"no handler for route"}, "refused"},
		{"a stale read", 412, "", []string{"required index state not present"}, "unavailable"},
		{"a quota", 429, "", []string{"rate limit quota exceeded"}, "unavailable"},
		{"an internal error", 500, "", []string{"internal error"}, "unavailable"},
		{"a standby without a leader", 502, "", nil, "unavailable"},
		{"it is sealed", 503, "", []string{"Vault is sealed"}, "unavailable"},
		{"a redirect of another kind", 302, "", nil, "unavailable"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.answerSigning(func(rw http.ResponseWriter, _ *http.Request) { vaulttest.Fail(rw, tc.status, tc.errors...) })
			if _, err := w.sign(t, w.issuer(nil)); kind(err) != tc.want {
				t.Errorf("%s: %v", kind(err), err)
			}
		})
	}
}

// answerSigning answers the calls that sign.
func (w *world) answerSigning(answer http.HandlerFunc) {
	w.With(func(s *vaulttest.State) {
		s.Answer = func(rw http.ResponseWriter, r *http.Request, c vaulttest.Call) bool {
			if c.Path == "/v1/pki/sign/web" {
				answer(rw, r)
				return true
			}
			return false
		}
	})
}

// A server that asks for a pause gets it from all requests.
func TestRetryAfter(t *testing.T) {
	w := newWorld(t)
	w.answerSigning(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "30")
		vaulttest.Fail(rw, http.StatusTooManyRequests, "rate limit quota exceeded")
	})
	for range 10 {
		if _, err := w.sign(t, w.issuer(nil)); kind(err) != "unavailable" {
			t.Fatal(err)
		}
	}
	if calls := w.Count("/sign/"); calls != 1 {
		t.Errorf("%d calls", calls)
	}
	w.answerSigning(nil)
	w.With(func(s *vaulttest.State) { s.Answer = nil })
	w.clock.Step(30 * time.Second)
	w.mustSign(t, w.issuer(nil))
}

func TestHealth(t *testing.T) {
	tests := []struct {
		status int
		want   string
	}{
		{200, ""}, {429, ""}, {472, ""}, {473, ""},
		{501, "Vault is not initialized"}, {503, "Vault is sealed"},
		{404, "the Vault server returned an HTTP 404 response which is not a Vault error response; the response body has been omitted and can be found in the certplane logs"},
	}
	for _, tc := range tests {
		w := newWorld(t)
		i := w.issuer(nil)
		w.mustSign(t, i) // has its token
		w.With(func(s *vaulttest.State) { s.Health = tc.status })
		err := w.pool.Verify(t.Context(), i, w.access())
		if got := textOf(err); got != tc.want || kind(err) == "init" {
			t.Errorf("status %d: %q", tc.status, got)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return vault.Text(err)
}

// When the process ends, no call goes on, and nothing is left of it.
func TestEnd(t *testing.T) {
	server := vaulttest.New(t)
	server.StartTLS()
	w := worldOf(t, server, vault.Settings{AllowLoopback: true, Timeout: metav1.Duration{Duration: 20 * time.Second}})
	begun := make(chan struct{})
	w.answerSigning(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	o := order(t)
	go func() {
		_, err := w.pool.Sign(ctx, w.issuer(nil), w.access(), o)
		result <- err
	}()
	<-begun
	cancel()
	select {
	case err := <-result:
		if kind(err) != "unavailable" {
			t.Error(err)
		}
	case <-time.After(time.Second):
		t.Fatal("the call goes on")
	}
	w.end(t)
	for deadline := time.Now().Add(5 * time.Second); ; {
		left := goroutines()
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%s", left)
		}
		<-time.After(time.Millisecond)
	}
}

// goroutines returns the stacks of calls to servers.
func goroutines() string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	var left []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "signer/vault.(") || strings.Contains(stack, "http.(*persistConn)") || strings.Contains(stack, "http.(*http2ClientConn)") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func TestSlowServer(t *testing.T) {
	server := vaulttest.New(t)
	server.StartTLS()
	w := worldOf(t, server, vault.Settings{AllowLoopback: true, Timeout: metav1.Duration{Duration: 300 * time.Millisecond}})
	tests := map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a body without an end": func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = rw.Write([]byte(" "))
				http.NewResponseController(rw).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		},
	}
	for reason, answer := range tests {
		w.answerSigning(answer)
		if _, err := w.sign(t, w.issuer(nil)); kind(err) != "unavailable" || !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	other := vaulttest.Start(t)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("called without TLS") }))
	defer plain.Close()
	tests := []struct {
		reason string
		status int
		to     func(w *world) string
		system bool // the issuer trusts the CAs of this host
		want   string
	}{
		{"to another member", 307, func(*world) string { return other.URL + "/v1/pki/sign/web" }, false, "none"},
		{"a permanent one to another member", 308, func(*world) string { return other.URL + "/v1/pki/sign/web" }, false, "none"},
		{"without TLS", 307, func(*world) string { return plain.URL }, false, "without TLS"},
		{"nowhere", 307, func(*world) string { return "" }, false, "cannot be used"},
		{"with another method", 302, func(*world) string { return other.URL }, false, "HTTP 302"},
		{"in a circle", 307, func(w *world) string { return w.URL + "/v1/pki/sign/web" }, false, "HTTP 307"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.answerSigning(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Location", tc.to(w))
				rw.WriteHeader(tc.status)
			})
			other.Allow("hvs.token-1")
			before := other.Count("/sign/")
			_, err := w.sign(t, w.issuer(nil))
			if tc.want == "none" {
				if err != nil || other.Count("/sign/") != before+1 {
					t.Errorf("%v; %v", err, other.Called())
				}
				return
			}
			if err == nil || !strings.Contains(vault.Text(err), tc.want) || kind(err) != "unavailable" || other.Count("/sign/") != before {
				t.Errorf("%s %v", kind(err), err)
			}
		})
	}
}

// Without CAs of its own, another host proves nothing.
func TestRedirectWithoutBundle(t *testing.T) {
	plain := httptest.NewServer(nil)
	defer plain.Close()
	other := vaulttest.Start(t)
	plain.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, other.URL, http.StatusTemporaryRedirect)
	})
	w := newWorld(t)
	_, err := w.sign(t, w.issuer(func(i *vault.Issuer) {
		i.Server, i.CABundle, i.Auth = plain.URL, nil, vault.Auth{Token: &vault.SecretKey{Name: "token"}}
	}))
	host, target := strings.TrimPrefix(plain.URL, "http://"), strings.TrimPrefix(other.URL, "https://")
	if err == nil || !strings.Contains(err.Error(), host+" redirects to "+target) || len(other.Calls()) > 0 {
		t.Errorf("%v; %v", err, other.Calls())
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		reason   string
		settings vault.Settings
		cluster  bool
		server   string
		want     string
	}{
		{"loopback for an Issuer", vault.Settings{}, false, "https://127.0.0.1:1", "is a loopback address"},
		{"by name", vault.Settings{}, false, "https://localhost:1", "is a loopback address"},
		{"in IPv6", vault.Settings{}, false, "https://[::1]:1", "is a loopback address"},
		{"in disguise", vault.Settings{}, false, "https://[::ffff:127.0.0.1]:1", "is a loopback address"},
		{"by no address", vault.Settings{}, false, "https://0.0.0.0:1", "is a loopback address"},
		{"loopback for a ClusterIssuer", vault.Settings{}, true, "https://127.0.0.1:1", "refused"},
		{"loopback that is allowed", vault.Settings{AllowLoopback: true}, false, "https://127.0.0.1:1", "refused"},
		{"a metadata service", vault.Settings{}, true, "http://169.254.169.254", "is a link-local or metadata address"},
		{"another", vault.Settings{}, true, "http://[fd00:ec2::254]", "is a link-local or metadata address"},
		{"in IPv6", vault.Settings{}, true, "http://[fe80::1%25lo]", "is a link-local or metadata address"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := worldOf(t, vaulttest.Start(t), tc.settings)
			_, err := w.sign(t, w.issuer(func(i *vault.Issuer) { i.Server, i.Loopback = tc.server, tc.cluster }))
			if kind(err) != "init" || !strings.Contains(vault.Text(err), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}
