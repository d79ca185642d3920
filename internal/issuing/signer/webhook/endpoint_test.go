package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// patientClock never blocks: its time jumps.
type patientClock struct {
	*clocktesting.FakeClock
}

func (c patientClock) After(d time.Duration) <-chan time.Time {
	c.Step(d)
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return fired
}

// fixture is an endpoint with its caller.
type fixture struct {
	*webhooktest.Endpoint
	caller  *endpoint
	clock   patientClock
	metrics *prometheus.Registry
}

func newFixture(t *testing.T, options ...func(*Settings)) *fixture {
	t.Helper()
	f := &fixture{
		Endpoint: webhooktest.Start(t),
		clock:    patientClock{clocktesting.NewFakeClock(time.Now())},
		metrics:  prometheus.NewRegistry(),
	}
	settings := Settings{
		SignerName: "example.com/signer", URL: f.URL, CAFile: f.CAFile,
		CertFile: f.CertFile, KeyFile: f.KeyFile, TokenFile: f.TokenFile,
		Timeout: metav1.Duration{Duration: 20 * time.Second},
	}
	for _, option := range options {
		option(&settings)
	}
	if err := settings.Validate("webhook"); err != nil {
		t.Fatal(err)
	}
	var err error
	f.caller, err = newEndpoint(Config{
		Settings: settings, Clock: f.clock, Metrics: f.metrics,
		Limits: func(string) signer.Limits { return signer.Limits{MaxDuration: 24 * time.Hour, MinRSABits: 2048} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newSignerRequest(t *testing.T, uid string) request.Request {
	t.Helper()
	data, err := pki.NewRequest(pki.Subject{CommonName: "alice"}, newTestKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return request.FromCSR(&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", UID: types.UID(uid)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "example.com/signer", Request: data, Usages: []certificatesv1.KeyUsage{"client auth", "digital signature"},
		},
	})
}

func (f *fixture) sign(t *testing.T, uid string) (*signer.Issued, error) {
	t.Helper()
	return f.caller.sign(t.Context(), newSignerRequest(t, uid), signer.Permission{}, time.Now())
}

func (f *fixture) wantIssued(t *testing.T) {
	t.Helper()
	if _, err := f.sign(t, "1"); err != nil {
		t.Error(err)
	}
}

// wantPending signs and returns the verdict, which must be that it has to wait.
func (f *fixture) wantPending(t *testing.T, uid string) *signer.PendingError {
	t.Helper()
	_, err := f.sign(t, uid)
	var pending *signer.PendingError
	if !errors.As(err, &pending) {
		t.Fatalf("error is %T %v", err, err)
	}
	return pending
}

func (f *fixture) counted(result string) int {
	return int(testutil.ToFloat64(f.caller.metrics.calls.WithLabelValues("example.com/signer", result)))
}

func (f *fixture) status(code int, header ...string) webhooktest.Answer {
	return func(w http.ResponseWriter, _ v1alpha1.SigningRequest) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, "you said %s", f.Token)
	}
}

// TestAnswersOverHTTP: what HTTP makes of a call. None of it is about the
// request, and none shows the token.
func TestAnswersOverHTTP(t *testing.T) {
	jsonType := []string{"Content-Type", "application/json"}
	const unavailable, invalid = signer.ReasonUnavailable, signer.ReasonInvalidAnswer
	tests := []struct {
		reason string
		status int
		header []string
		result string
		want   string
		calls  int
		after  time.Duration
		open   bool // counts for the circuit breaker
	}{
		{reason: "broken", status: 500, result: resultBroken, want: unavailable, calls: 3, open: true},
		{reason: "a proxy without the endpoint", status: 502, result: resultBroken, want: unavailable, calls: 3, open: true},
		{reason: "not implemented", status: 501, result: resultBroken, want: unavailable, calls: 1, open: true},
		{reason: "overloaded", status: 503, result: resultOverloaded, want: unavailable, calls: 3, open: true},
		{reason: "overloaded, for a time", status: 503, header: []string{"Retry-After", "7"}, result: resultOverloaded, want: unavailable, calls: 1, after: 7 * time.Second, open: true},
		{reason: "too many, for long", status: 429, header: []string{"Retry-After", "99999999999"}, result: resultOverloaded, want: unavailable, calls: 1, after: time.Hour, open: true},
		{reason: "too many, for a day", status: 429, header: []string{"Retry-After", "86400"}, result: resultOverloaded, want: unavailable, calls: 1, after: time.Hour, open: true},
		{reason: "too many, in the past", status: 429, header: []string{"Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"}, result: resultOverloaded, want: unavailable, calls: 3, open: true},
		{reason: "who are you", status: 401, result: resultRejected, want: unavailable, calls: 1, open: true},
		{reason: "you may not", status: 403, result: resultRejected, want: unavailable, calls: 1, open: true},
		{reason: "nothing here", status: 404, result: resultRejected, want: unavailable, calls: 1, open: true},
		{reason: "somewhere else", status: 307, header: []string{"Location", "/sign"}, result: resultRejected, want: unavailable, calls: 1, open: true},
		{reason: "a request that it cannot read", status: 400, result: resultRejected, want: unavailable, calls: 1},
		{reason: "a request that is too large", status: 413, result: resultRejected, want: unavailable, calls: 1},
		{reason: "another success", status: 202, header: jsonType, result: resultInvalid, want: invalid, calls: 1, after: 5 * time.Minute},
		{reason: "HTML", status: 200, header: []string{"Content-Type", "text/html"}, result: resultInvalid, want: invalid, calls: 1, after: 5 * time.Minute},
		{reason: "no content type", status: 200, header: []string{"Content-Type", ""}, result: resultInvalid, want: invalid, calls: 1, after: 5 * time.Minute},
		{reason: "no JSON", status: 200, header: jsonType, result: resultInvalid, want: invalid, calls: 1, after: 5 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t)
			f.Answers(f.status(tc.status, tc.header...))
			pending := f.wantPending(t, "1")
			if pending.Reason != tc.want || pending.RetryAfter != tc.after {
				t.Errorf("verdict %s after %v, want %s after %v", pending.Reason, pending.RetryAfter, tc.want, tc.after)
			}
			if calls, counted := len(f.Calls()), f.counted(tc.result); calls != tc.calls || counted != calls {
				t.Errorf("%d calls, %d of them counted as %s, want %d", calls, counted, tc.result, tc.calls)
			}
			assertPlain(t, f, pending)
			if silent := f.caller.breaker.Silent() > 0; silent != tc.open {
				t.Errorf("counts for the circuit breaker: %v, want %v", silent, tc.open)
			}
		})
	}
}

// assertPlain: the requester sees nothing of the endpoint, and the token is
// never shown.
func assertPlain(t *testing.T, f *fixture, pending *signer.PendingError) {
	t.Helper()
	if strings.Contains(pending.Message, "HTTP") || strings.Contains(pending.Message, f.URL) {
		t.Errorf("the requester gets to read %q", pending.Message)
	}
	if !strings.Contains(pending.Error(), f.caller.settings.URL) || !strings.Contains(pending.Note, f.caller.settings.URL) {
		t.Errorf("the operator does not get to know the endpoint: %v; %s", pending, pending.Note)
	}
	if strings.Contains(pending.Error()+pending.Note, f.Token) {
		t.Errorf("the token is in %v", pending)
	}
}

func TestConnections(t *testing.T) {
	tests := []struct {
		reason string
		change func(*testing.T, *fixture, *Settings)
		result string
		calls  int // counted: those that reach the endpoint are none
		want   string
	}{
		{
			reason: "nobody there", result: resultUnreachable, calls: 3, want: "connection refused",
			change: func(_ *testing.T, f *fixture, _ *Settings) { f.Down() },
		},
		{
			reason: "a CA that we do not know", result: resultUnreachable, calls: 1, want: "certificate signed by unknown authority",
			change: func(t *testing.T, _ *fixture, s *Settings) { s.CAFile = webhooktest.Start(t).CAFile },
		},
		{
			reason: "the CAs of this host", result: resultUnreachable, calls: 1, want: "certificate signed by unknown authority",
			change: func(_ *testing.T, _ *fixture, s *Settings) { s.CAFile = "" },
		},
		{
			reason: "a name that is not in its certificate", result: resultUnreachable, calls: 1, want: "certificate is valid for endpoint.example.com, not other.example.com",
			change: func(_ *testing.T, _ *fixture, s *Settings) { s.ServerName = "other.example.com" },
		},
		{
			reason: "a certificate of ours that it does not know", result: resultUnreachable, calls: 1, want: "tls: ",
			change: func(t *testing.T, _ *fixture, s *Settings) {
				other := webhooktest.Start(t)
				s.CertFile, s.KeyFile = other.CertFile, other.KeyFile
			},
		},
		{
			reason: "no certificate of ours", result: resultUnreachable, calls: 1, want: "tls: ",
			change: func(_ *testing.T, _ *fixture, s *Settings) { s.CertFile, s.KeyFile = "", "" },
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t)
			settings := f.caller.settings
			tc.change(t, f, &settings)
			var err error
			if f.caller, err = newEndpoint(Config{Settings: settings, Clock: f.clock, Metrics: f.metrics, Limits: f.caller.limits}); err != nil {
				t.Fatal(err)
			}
			pending := f.wantPending(t, "1")
			if pending.Reason != signer.ReasonUnavailable || !strings.Contains(pending.Error(), tc.want) {
				t.Errorf("verdict %v, want one with %q", pending, tc.want)
			}
			if counted := f.counted(tc.result); counted != tc.calls || len(f.Calls()) > 0 {
				t.Errorf("%d calls counted as %s, want %d; %d reached the endpoint", counted, tc.result, tc.calls, len(f.Calls()))
			}
			assertPlain(t, f, pending)
		})
	}
}

func TestServerName(t *testing.T) {
	newFixture(t, func(s *Settings) { s.ServerName = "endpoint.example.com" }).wantIssued(t)
}

// TestWrongAnswers: what comes back is held to the request.
func TestWrongAnswers(t *testing.T) {
	tests := []struct {
		reason string
		answer func(*testing.T, *fixture, http.ResponseWriter, v1alpha1.SigningRequest)
		want   string
	}{
		{"too large, however good", func(t *testing.T, f *fixture, w http.ResponseWriter, r v1alpha1.SigningRequest) {
			webhooktest.Send(t, w, r.Issued(f.Issue(t, r)))
			fmt.Fprint(w, strings.Repeat(" ", maxAnswer))
		}, "answer is larger than 262144 bytes"},
		{"of another type, however good", func(t *testing.T, f *fixture, w http.ResponseWriter, r v1alpha1.SigningRequest) {
			w.Header().Set("Content-Type", "text/json")
			if _, err := w.Write(encode(t, r.Issued(f.Issue(t, r)))); err != nil {
				t.Error(err)
			}
		}, "content type must be application/json"},
		{"valid for too long", func(t *testing.T, f *fixture, w http.ResponseWriter, r v1alpha1.SigningRequest) {
			r.MaxExpirationSeconds *= 2
			webhooktest.Send(t, w, r.Issued(f.Issue(t, r)))
		}, "it is valid for 2h0m0s, longer than 1h0m0s"},
		{"for somebody else, by a signer of Kubernetes", func(t *testing.T, f *fixture, w http.ResponseWriter, r v1alpha1.SigningRequest) {
			template := goodTemplate(time.Now())
			template.ExtKeyUsage = template.ExtKeyUsage[:1]
			parsed, err := pki.ParseRequest([]byte(r.Request))
			if err != nil {
				t.Error(err)
			}
			webhooktest.Send(t, w, r.Issued(pki.EncodeCertificates(newIssuer(t).sign(t, template, parsed.PublicKey))))
		}, "its subject differs from the request's"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, func(s *Settings) {
				s.SignerName, s.MaxDuration.Duration = "kubernetes.io/*", time.Hour
			})
			f.Answers(func(w http.ResponseWriter, r v1alpha1.SigningRequest) { tc.answer(t, f, w, r) })
			request := newSignerRequest(t, "1")
			request.SignerName = certificatesv1.KubeAPIServerClientSignerName
			_, err := f.caller.sign(t.Context(), request, signer.Permission{}, time.Now())
			var pending *signer.PendingError
			if !errors.As(err, &pending) || pending.Reason != signer.ReasonInvalidAnswer || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestLifetimes: the lifetimes that an endpoint gets in requests.
func TestLifetimes(t *testing.T) {
	hours := func(n time.Duration) *time.Duration { return new(n * time.Hour) }
	tests := []struct {
		reason string
		own    time.Duration
		wish   *time.Duration
		limit  time.Duration
	}{
		{reason: "the limit of all signers", limit: 24 * time.Hour},
		{reason: "the endpoint's own", own: 48 * time.Hour, limit: 48 * time.Hour},
		{reason: "a wish", wish: hours(2), limit: 2 * time.Hour},
		{reason: "a wish for too much", wish: hours(72), limit: 24 * time.Hour},
		{reason: "a wish for too little", wish: new(time.Minute), limit: 10 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFixture(t, func(s *Settings) { s.MaxDuration.Duration = tc.own })
			request := newSignerRequest(t, "1")
			request.Duration = tc.wish
			if _, err := f.caller.sign(t.Context(), request, signer.Permission{}, time.Now()); err != nil {
				t.Fatal(err)
			}
			got := f.Calls()[0]
			if got.MaxExpirationSeconds != int64(tc.limit/time.Second) {
				t.Errorf("told that %ds is the limit, want %v", got.MaxExpirationSeconds, tc.limit)
			}
			if (got.ExpirationSeconds == nil) != (tc.wish == nil) || tc.wish != nil && *got.ExpirationSeconds != int64(*tc.wish/time.Second) {
				t.Errorf("told of the wish %v, want %v", got.ExpirationSeconds, tc.wish)
			}
		})
	}
}

// A repetition that succeeds is all that counts.
func TestRepetition(t *testing.T) {
	f := newFixture(t)
	good := f.status(503)
	f.Answers(func(w http.ResponseWriter, r v1alpha1.SigningRequest) {
		if len(f.Calls()) == 3 {
			webhooktest.Send(t, w, r.Issued(f.Issue(t, r)))
			return
		}
		good(w, r)
	})
	f.wantIssued(t)
	for _, call := range f.Calls() {
		if call.UID != "1" {
			t.Errorf("a repetition has the UID %q", call.UID)
		}
	}
	if f.Calls()[2].Deadline.Equal(f.Calls()[0].Deadline) {
		t.Error("a repetition has the deadline of the first call")
	}
}

// hang answers when the caller has gone.
func hang(gone <-chan struct{}) webhooktest.Answer {
	return func(http.ResponseWriter, v1alpha1.SigningRequest) { <-gone }
}

func TestTimeout(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Timeout.Duration = 50 * time.Millisecond })
	gone := make(chan struct{})
	f.Answers(hang(gone))
	pending := f.wantPending(t, "1")
	close(gone)
	if len(f.Calls()) != 1 || f.counted(resultTimeout) != 1 || f.caller.breaker.Silent() != 1 {
		t.Errorf("%d calls; verdict %v", len(f.Calls()), pending)
	}
}

// A caller that gives up gets an error at once, which does not count against
// the endpoint.
func TestAbandoned(t *testing.T) {
	f := newFixture(t)
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	f.Answers(func(w http.ResponseWriter, r v1alpha1.SigningRequest) {
		cancel()
		hang(gone)(w, r)
	})
	_, err := f.caller.sign(ctx, newSignerRequest(t, "1"), signer.Permission{}, time.Now())
	close(gone)
	if !errors.As(err, new(*signer.PendingError)) || f.counted(resultAbandoned) != 1 || f.caller.breaker.Silent() > 0 {
		t.Errorf("error %v, silent %v", err, f.caller.breaker.Silent())
	}
}

// With too little time left for a call there is none.
func TestNoTimeLeft(t *testing.T) {
	f := newFixture(t)
	f.Answers(f.status(503))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := f.caller.sign(ctx, newSignerRequest(t, "1"), signer.Permission{}, time.Now()); err == nil || len(f.Calls()) != 1 {
		t.Errorf("%d calls, error %v", len(f.Calls()), err)
	}
}

func TestCircuit(t *testing.T) {
	f := newFixture(t)
	f.Answers(f.status(404))
	for i := range breaker.TripAfter {
		f.wantPending(t, fmt.Sprint(i))
	}
	pending := f.wantPending(t, "spared")
	if len(f.Calls()) != breaker.TripAfter {
		t.Fatalf("%d calls, want no more than %d", len(f.Calls()), breaker.TripAfter)
	}
	if pending.RetryAfter < breaker.OpenFor || pending.RetryAfter > breaker.OpenFor+breaker.OpenFor/5 || pending.Reason != signer.ReasonUnavailable {
		t.Errorf("verdict %v after %v", pending, pending.RetryAfter)
	}
	const want = `
# HELP certplane_webhook_circuit_open 1 while calls to a signer's endpoint are suspended because it did not answer, else 0, by signer.
# TYPE certplane_webhook_circuit_open gauge
certplane_webhook_circuit_open{signer="example.com/signer"} 1
# HELP certplane_webhook_circuit_opened_total Number of times that calls to a signer's endpoint were suspended because it did not answer, by signer.
# TYPE certplane_webhook_circuit_opened_total counter
certplane_webhook_circuit_opened_total{signer="example.com/signer"} 1
# HELP certplane_webhook_circuit_spared_total Number of calls that were skipped because calls to the endpoint were suspended, by signer.
# TYPE certplane_webhook_circuit_spared_total counter
certplane_webhook_circuit_spared_total{signer="example.com/signer"} 1
`
	if err := testutil.GatherAndCompare(f.metrics, strings.NewReader(want),
		"certplane_webhook_circuit_open", "certplane_webhook_circuit_opened_total", "certplane_webhook_circuit_spared_total"); err != nil {
		t.Error(err)
	}
	f.Answers(func(w http.ResponseWriter, r v1alpha1.SigningRequest) {
		webhooktest.Send(t, w, r.Issued(f.Issue(t, r)))
	})
	f.clock.Step(breaker.OpenFor)
	f.wantIssued(t)
	if got := testutil.ToFloat64(f.caller.metrics.isOpen); got != 0 {
		t.Errorf("certplane_webhook_circuit_open is %v after an answer", got)
	}
}

// Verdicts on the request need no endpoint.
func TestBadRequests(t *testing.T) {
	f := newFixture(t)
	f.Down()
	tests := []struct {
		reason string
		change func(*request.Request)
		want   string
	}{
		{"no request", func(r *request.Request) { r.Unreadable = pki.ErrRequestBlockType }, signer.ReasonInvalidRequest},
		{"unknown usages", func(r *request.Request) { r.Usages = []string{"nonsense"} }, signer.ReasonValidation},
		{"what a signer of Kubernetes refuses", func(r *request.Request) {
			r.SignerName = certificatesv1.KubeletServingSignerName
		}, signer.ReasonValidation},
		{"a small key", func(r *request.Request) { r.PKCS10 = smallRSA(t) }, signer.ReasonUnsupportedKey},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			req := newSignerRequest(t, "1")
			tc.change(&req)
			_, err := f.caller.sign(t.Context(), req, signer.Permission{}, time.Now())
			var permanent *signer.PermanentError
			if !errors.As(err, &permanent) || permanent.Reason != tc.want {
				t.Errorf("error is %T %v, want %s", err, err, tc.want)
			}
		})
	}
}

func TestConcurrentCalls(t *testing.T) {
	f := newFixture(t, func(s *Settings) { s.Concurrency = 4 })
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			if _, err := f.sign(t, fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f.counted(resultIssued) != 32 {
		t.Errorf("%d calls counted", f.counted(resultIssued))
	}
}
