package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

// API is the stand-in of a provider's API, in the real format. It accepts only
// requests with valid credentials.
type API interface {
	http.Handler
	// Values returns the values of the TXT records of a name, without quotes.
	Values(fqdn string) []string
	// Set replaces the TXT records of a name, as another writer would.
	Set(fqdn string, values ...string)
}

// Case is a provider to be checked. Its API has the zone example.com.
type Case struct {
	New func(ctx context.Context, env provider.Env) (provider.Provider, error)
	// API returns an API that accepts the credentials in valid.
	API func(valid *Secrets) API
	// Secrets are the first credentials, Rotated are others for the same account.
	Secrets, Rotated map[string]string
	// Sensitive are more texts that must not appear in errors, such as tokens
	// that the API gives out.
	Sensitive []string
	// Refusal is an error in the API's format.
	Refusal func(status int, message string) string
	// Plain are the hosts that are called without TLS.
	Plain []string
	// Conditional is set if the API refuses to change a record set that another writer has
	// changed since it was read.
	Conditional bool
	// KeepsRecords is set if clean-up does nothing.
	KeepsRecords bool
}

const (
	first  = "first-_value-000000000000000000000000000000"
	second = "second-value-000000000000000000000000000000"
	third  = "third--value-000000000000000000000000000000"
)

func record(value string) provider.Record {
	return provider.Record{FQDN: "_acme-challenge.www.example.com.", Zone: "example.com.", Value: value, Domain: "www.example.com"}
}

// bench is a Case with its API running.
type bench struct {
	Case
	api    API
	faults *faults
	given  *Secrets // what the provider reads
	valid  *Secrets // what the API accepts
	newEnv provider.Env
}

func (c Case) start(t *testing.T) *bench {
	t.Helper()
	b := &bench{Case: c, given: NewSecrets(c.Secrets), valid: NewSecrets(c.Secrets)}
	b.api = c.API(b.valid)
	b.faults = &faults{next: b.api, at: -1}
	b.newEnv = Env(Client(t, b.faults, c.Plain...), b.given)
	return b
}

func (b *bench) present(ctx context.Context, r provider.Record) error {
	p, err := b.New(ctx, b.newEnv)
	if err != nil {
		return err
	}
	return p.Present(ctx, r)
}

func (b *bench) cleanUp(ctx context.Context, r provider.Record) error {
	p, err := b.New(ctx, b.newEnv)
	if err != nil {
		return err
	}
	return p.CleanUp(ctx, r)
}

func (b *bench) mustPresent(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		if err := b.present(t.Context(), record(value)); err != nil {
			t.Fatalf("Present of %s: %v", value, err)
		}
	}
}

func (b *bench) mustCleanUp(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		if err := b.cleanUp(t.Context(), record(value)); err != nil {
			t.Fatalf("CleanUp of %s: %v", value, err)
		}
	}
}

func (b *bench) wantValues(t *testing.T, want ...string) {
	t.Helper()
	got := slices.Compact(slices.Sorted(slices.Values(b.api.Values(record("").FQDN))))
	if !b.KeepsRecords && len(got) != len(b.api.Values(record("").FQDN)) {
		t.Errorf("a value exists twice: %q", b.api.Values(record("").FQDN))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// Run checks a provider.
func Run(t *testing.T, c Case) {
	t.Run("records", c.testRecords)
	t.Run("zone missing", c.testZoneMissing)
	t.Run("credentials", c.testCredentials)
	t.Run("answers", c.testAnswers)
	t.Run("a call without an answer ends with the context", c.testCancelled)
	t.Run("concurrent use", c.testConcurrent)
	if c.Conditional {
		t.Run("another writer", c.testOtherWriter)
	}
}

func (c Case) testRecords(t *testing.T) {
	left := func(values ...string) []string {
		if c.KeepsRecords {
			return []string{first, second}
		}
		return values
	}
	t.Run("present twice is one record", func(t *testing.T) {
		b := c.start(t)
		b.mustPresent(t, first, first)
		b.wantValues(t, first)
	})
	for _, order := range [][]string{{first, second}, {second, first}} {
		t.Run("two values are side by side, whatever the order", func(t *testing.T) {
			b := c.start(t)
			b.mustPresent(t, order...)
			b.wantValues(t, first, second)
			b.mustCleanUp(t, order[0])
			b.wantValues(t, left(order[1])...)
			b.mustCleanUp(t, order[0], order[1], order[1])
			b.wantValues(t, left()...)
		})
	}
	t.Run("clean-up of a record that never existed", func(t *testing.T) {
		b := c.start(t)
		b.mustCleanUp(t, first)
		b.wantValues(t)
	})
	t.Run("a record that was there before stays", func(t *testing.T) {
		if c.KeepsRecords {
			t.Skip("the API keeps two values")
		}
		b := c.start(t)
		b.api.Set(record("").FQDN, third)
		b.mustPresent(t, first)
		b.wantValues(t, first, third)
		b.mustCleanUp(t, first)
		b.wantValues(t, third)
	})
}

func (c Case) testZoneMissing(t *testing.T) {
	b := c.start(t)
	missing := provider.Record{FQDN: "_acme-challenge.www.example.org.", Zone: "example.org.", Value: first, Domain: "www.example.org"}
	b.wantError(t, b.present(t.Context(), missing))
	if got := b.api.Values(missing.FQDN); len(got) > 0 {
		t.Errorf("values in a zone that does not exist: %q", got)
	}
}

func (c Case) testCredentials(t *testing.T) {
	b := c.start(t)
	b.mustPresent(t, first)
	b.valid.Set(c.Rotated)
	err := b.present(t.Context(), record(second))
	b.wantError(t, err)
	if temporary := (*provider.TemporaryError)(nil); errors.As(err, &temporary) {
		t.Errorf("credentials that the API refuses are a temporary error: %v", err)
	}
	b.given.Set(c.Rotated)
	b.mustCleanUp(t, first)
	if !c.KeepsRecords {
		b.wantValues(t)
	}
}

// wantError checks what holds for all errors.
func (b *bench) wantError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if len(err.Error()) > 1024 {
		t.Errorf("the error has %d bytes: %.200s", len(err.Error()), err)
	}
	for _, secrets := range []map[string]string{b.Secrets, b.Rotated} {
		for ref, value := range secrets {
			if strings.Contains(err.Error(), value) {
				t.Errorf("the error shows the Secret %s: %v", ref, err)
			}
		}
	}
	for _, text := range b.Sensitive {
		if strings.Contains(err.Error(), text) {
			t.Errorf("the error shows %q: %v", text, err)
		}
	}
}

// answers are possible answers of an API, or a proxy before it, to any call.
var answers = []struct {
	reason    string
	status    int
	header    http.Header
	body      func(c Case, echo string) string
	temporary bool
	after     time.Duration
}{
	{reason: "401 that quotes the request", status: 401, body: refusal(401)},
	{reason: "403 without a body", status: 403, body: page("")},
	{reason: "429 with Retry-After", status: 429, header: http.Header{"Retry-After": {"7"}}, body: refusal(429), temporary: true, after: 7 * time.Second},
	{reason: "429 with the date of Retry-After", status: 429, header: http.Header{"Retry-After": {Now.Add(time.Minute).Format(http.TimeFormat)}}, body: page(""), temporary: true, after: time.Minute},
	{reason: "429 that asks for a year", status: 429, header: http.Header{"Retry-After": {"31536000"}}, body: page(""), temporary: true, after: time.Hour},
	{reason: "500 that quotes the request", status: 500, body: refusal(500), temporary: true},
	{reason: "502 of a proxy", status: 502, body: page("<html>bad gateway</html>"), temporary: true},
	{reason: "garbage", status: 200, body: page("{]<<garbage")},
	{reason: "an answer without end", status: 200, body: page(strings.Repeat("x", 2<<20))},
	{reason: "an error without end", status: 400, body: page(strings.Repeat("x", 2<<20))},
	{reason: "a redirect to another host", status: 307, header: http.Header{"Location": {"https://elsewhere.example.net/"}}, body: page("")},
}

func refusal(status int) func(Case, string) string {
	return func(c Case, echo string) string { return c.Refusal(status, echo) }
}

func page(text string) func(Case, string) string {
	return func(Case, string) string { return text }
}

// Each call that Present makes gets each answer once.
func (c Case) testAnswers(t *testing.T) {
	b := c.start(t)
	b.mustPresent(t, first)
	calls := b.faults.count()
	for _, answer := range answers {
		for call := range calls {
			t.Run(fmt.Sprintf("%s to call %d", answer.reason, call), func(t *testing.T) {
				b := c.start(t)
				b.faults.inject(call, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					for key, values := range answer.header {
						w.Header()[key] = values
					}
					w.WriteHeader(answer.status)
					io.WriteString(w, answer.body(c, fmt.Sprintf("%v %s", r.Header, body)))
				})
				err := b.present(t.Context(), record(first))
				b.wantError(t, err)
				var temporary *provider.TemporaryError
				// A provider may treat a malformed success as it likes.
				if got := errors.As(err, &temporary); got != answer.temporary && answer.status >= 300 {
					t.Fatalf("temporary is %v: %v", got, err)
				}
				if answer.temporary && temporary.RetryAfter != answer.after {
					t.Errorf("RetryAfter is %s, want %s", temporary.RetryAfter, answer.after)
				}
				b.mustPresent(t, first) // nothing is left that would prevent it
				b.wantValues(t, first)
			})
		}
	}
}

func (c Case) testCancelled(t *testing.T) {
	b := c.start(t)
	b.mustPresent(t, first)
	for call := range b.faults.count() {
		b := c.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.faults.inject(call, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
		})
		if err := b.present(ctx, record(first)); !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v", call, err)
		}
		cancel()
	}
}

// One provider writes several names at the same time. The race detector sees
// more of it.
func (c Case) testConcurrent(t *testing.T) {
	b := c.start(t)
	p, err := b.New(t.Context(), b.newEnv)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 8 {
		go func() { errs <- p.Present(t.Context(), record(first)) }()
	}
	for range 8 {
		// Two calls for one new record set can meet.
		if err, temporary := <-errs, (*provider.TemporaryError)(nil); err != nil && !errors.As(err, &temporary) {
			t.Error(err)
		}
	}
	b.mustPresent(t, first)
}

// Another writer changes the record set after it was read and before it is
// written.
func (c Case) testOtherWriter(t *testing.T) {
	tests := []struct {
		reason string
		before []string // in the set, before all
		other  []string // what the other writer sets
		act    func(*bench, context.Context, provider.Record) error
		want   []string // after a second attempt
	}{
		{reason: "the set is new for both", other: []string{third}, act: (*bench).present, want: []string{first, third}},
		{reason: "the set grows", before: []string{second}, other: []string{second, third}, act: (*bench).present, want: []string{first, second, third}},
		{reason: "the set is deleted", before: []string{second}, act: (*bench).present, want: []string{first}},
		{reason: "clean-up of a set that grows", before: []string{first, second}, other: []string{first, second, third}, act: (*bench).cleanUp, want: []string{second, third}},
		{reason: "clean-up of the last value, while another is added", before: []string{first}, other: []string{first, third}, act: (*bench).cleanUp, want: []string{third}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			b := c.start(t)
			fqdn := record("").FQDN
			if len(test.before) > 0 {
				b.api.Set(fqdn, test.before...)
			}
			b.faults.onWrite(func() { b.api.Set(fqdn, test.other...) })
			err := test.act(b, t.Context(), record(first))
			if temporary := (*provider.TemporaryError)(nil); !errors.As(err, &temporary) {
				t.Fatalf("the lost race is not a temporary error: %v", err)
			}
			b.wantValues(t, test.other...)
			if err := test.act(b, t.Context(), record(first)); err != nil {
				t.Fatalf("second attempt: %v", err)
			}
			b.wantValues(t, test.want...)
		})
	}
}
