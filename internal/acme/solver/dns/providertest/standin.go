// Package providertest checks that DNS providers keep the contract of package
// provider.
package providertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
)

// Now is the time of Env.
var Now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// Client returns a client whose calls all reach a handler, whatever their host.
// The handler sees the host that was called. Calls without TLS are errors,
// except to the hosts in plain.
func Client(t testing.TB, handler http.Handler, plain ...string) *http.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: rewrite{transport: transport, plain: plain}}
}

// rewrite sends requests for https without TLS.
type rewrite struct {
	transport http.RoundTripper
	plain     []string
}

func (r rewrite) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !slices.Contains(r.plain, request.URL.Host) {
		return nil, fmt.Errorf("%s is called without TLS", request.URL.Host)
	}
	request = request.Clone(request.Context())
	request.URL.Scheme = "http"
	return r.transport.RoundTrip(request)
}

// Secrets are the Secrets of a namespace, as "<name>/<key>" → value. They are
// safe for concurrent use.
type Secrets struct {
	mu     sync.Mutex
	values map[string]string
}

// NewSecrets returns Secrets with these values.
func NewSecrets(values map[string]string) *Secrets {
	return &Secrets{values: values}
}

// Set replaces all values.
func (s *Secrets) Set(values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
}

// Value returns the value of "<name>/<key>", or "".
func (s *Secrets) Value(ref string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[ref]
}

func (s *Secrets) get(_ context.Context, name, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[name+"/"+key]
	if !found {
		return nil, fmt.Errorf("specified key %q not found in secret ns/%s", key, name)
	}
	return []byte(value), nil
}

// Env returns what a provider may use: a client, Secrets, and tokens of service
// accounts that are "token of <name>".
func Env(client *http.Client, secrets *Secrets) provider.Env {
	return provider.Env{
		HTTP:     client,
		Metadata: client,
		Secret:   secrets.get,
		Token: func(_ context.Context, account string, _ []string, _ time.Duration) (string, error) {
			return "token-of-" + account, nil
		},
		Now: func() time.Time { return Now },
	}
}

// Records are TXT records for a stand-in of an API: "<fqdn>" → values. They are
// safe for concurrent use.
type Records struct {
	mu     sync.Mutex
	values map[string][]string
	// versions counts the changes, for ETags.
	versions map[string]int
}

// Values returns the values of a name.
func (r *Records) Values(fqdn string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.values[fqdn])
}

// Version returns how often a name was changed.
func (r *Records) Version(fqdn string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.versions[fqdn]
}

// Set replaces the values of a name.
func (r *Records) Set(fqdn string, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values, r.versions = map[string][]string{}, map[string]int{}
	}
	r.values[fqdn] = slices.Clone(values)
	r.versions[fqdn]++
}

// Add adds a value to a name.
func (r *Records) Add(fqdn, value string) {
	r.Set(fqdn, append(r.Values(fqdn), value)...)
}
