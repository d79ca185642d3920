package contact

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	testingclock "k8s.io/utils/clock/testing"
)

// By a wrong clock the server's certificate is not valid. The message is the same each time.
func TestWrongClock(t *testing.T) {
	cert := &x509.Certificate{Raw: []byte{0}, NotBefore: time.Unix(1000, 0), NotAfter: time.Unix(2000, 0)}
	pool := x509.NewCertPool()
	for _, now := range []time.Time{time.Unix(3000, 0), time.Unix(4000, 0)} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now})
		want := "the server's certificate is valid from 1970-01-01T00:16:40Z to 1970-01-01T00:33:20Z, which does not include the current time of this host's clock"
		if got := describe(fmt.Errorf("tls: %w", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestTracker(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	tracker := New(clock)
	config := &rest.Config{Host: server.URL}
	tracker.Watch(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context) State {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := client.Do(request); err == nil {
			_ = answer.Body.Close()
		}
		return tracker.State()
	}
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	if s := tracker.State(); s.URL != server.URL || s.Error != "" || !s.LastContact.IsZero() {
		t.Errorf("before a call: %+v", s)
	}
	for i, tt := range []struct {
		reason      string
		status      int
		lastContact time.Time
		since       time.Time
		refused     bool
		want        string
	}{
		{"an answer", http.StatusOK, at(1001), time.Time{}, false, ""},
		{"a refusal of one call is an answer", http.StatusForbidden, at(1002), time.Time{}, false, ""},
		{"a refusal of who asks", http.StatusUnauthorized, at(1002), at(1003), true, "401 Unauthorized"},
		{"nobody behind a proxy", http.StatusServiceUnavailable, at(1002), at(1003), false, "503 Service Unavailable"},
		{"an answer again", http.StatusNotFound, at(1005), time.Time{}, false, ""},
	} {
		clock.SetTime(at(1001 + int64(i)))
		status = tt.status
		s := call(t.Context())
		if !s.LastContact.Equal(tt.lastContact) || !s.Since.Equal(tt.since) || s.Refused != tt.refused ||
			(s.Error == "") != (tt.want == "") || !strings.Contains(s.Error, tt.want) {
			t.Errorf("%s: %+v", tt.reason, s)
		}
	}
	server.Close()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if s := call(canceled); s.Error != "" {
		t.Errorf("a call that we gave up: %+v", s)
	}
	first := call(t.Context())
	if !strings.Contains(first.Error, "connection refused") {
		t.Errorf("nobody listens: %+v", first)
	}
	clock.SetTime(at(2000))
	if s := call(t.Context()); s != first {
		t.Errorf("the next call: %+v, want the same", s)
	}
}
