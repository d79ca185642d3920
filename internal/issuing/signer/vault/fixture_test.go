package vault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	"github.com/certplane/certplane/internal/pki"
)

// quick is a clock on which pauses pass at once.
type quick struct{ *testingclock.FakeClock }

func (q quick) After(d time.Duration) <-chan time.Time {
	q.Step(d)
	fired := make(chan time.Time, 1)
	fired <- q.Now()
	return fired
}

// world is a server, a pool and what issuers refer to.
type world struct {
	*vaulttest.Server
	pool     *vault.Pool
	clock    quick
	registry *prometheus.Registry

	mu       sync.Mutex // guards what follows
	secrets  map[string]vault.Secret
	version  int
	accounts []string // tokens that were requested, with their audiences
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOf(t, vaulttest.Start(t), vault.Settings{AllowLoopback: true})
}

func worldOf(t *testing.T, server *vaulttest.Server, settings vault.Settings) *world {
	t.Helper()
	w := &world{Server: server, clock: quick{testingclock.NewFakeClock(time.Now())}, secrets: map[string]vault.Secret{}, registry: prometheus.NewRegistry()}
	var err error
	w.pool, err = vault.New(vault.Config{Settings: settings, Clock: w.clock, Metrics: w.registry, Random: func(time.Duration) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	w.put("role", "id", "secret-id-1\n")
	w.put("token", "token", "hvs.static\n")
	w.put("jwt", "token", "jwt-1\n")
	server.Allow("hvs.static")
	return w
}

// put writes one key of a Secret.
func (w *world) put(name, key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	data := map[string][]byte{key: []byte(value)}
	for other, value := range w.secrets[name].Data {
		if other != key {
			data[other] = value
		}
	}
	w.secrets[name] = vault.Secret{Data: data, Version: strconv.Itoa(w.version)}
}

func (w *world) access() vault.Access {
	return vault.Access{
		Secret: func(_ context.Context, name string) (vault.Secret, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			found, ok := w.secrets[name]
			if !ok {
				return vault.Secret{}, fmt.Errorf("secrets %q not found", name)
			}
			return found, nil
		},
		Token: func(_ context.Context, account string, audiences []string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.accounts = append(w.accounts, fmt.Sprint(account, audiences))
			return "jwt-of-" + account, nil
		},
	}
}

// issuer returns an issuer that logs in by appRole, unless change says
// otherwise.
func (w *world) issuer(change func(*vault.Issuer)) vault.Issuer {
	i := vault.Issuer{
		UID: "uid-1", Generation: 1, Namespace: "ns", Name: "corp", SecretNamespace: "ns",
		Server: w.URL, Path: "pki/sign/web", VaultNamespace: "team", CABundle: w.Bundle(),
		Auth: vault.Auth{AppRole: &vault.AppRole{RoleID: "role-1", SecretID: vault.SecretKey{Name: "role", Key: "id"}}},
	}
	if change != nil {
		change(&i)
	}
	return i
}

func by(auth vault.Auth) func(*vault.Issuer) { return func(i *vault.Issuer) { i.Auth = auth } }

var orders int

// order returns the order of another request.
func order(t testing.TB) vault.Order {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: "web", DNSNames: []string{"a.example.com", "b.example.com"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	orders++
	return vault.Order{ID: strconv.Itoa(orders), PEM: data, CSR: csr.CertificateRequest, Duration: 2160 * time.Hour}
}

func (w *world) sign(t *testing.T, i vault.Issuer) (*x509.Certificate, error) {
	t.Helper()
	bundle, err := w.pool.Sign(t.Context(), i, w.access(), order(t))
	if err != nil {
		return nil, err
	}
	return bundle.Leaf, nil
}

func (w *world) mustSign(t *testing.T, i vault.Issuer) {
	t.Helper()
	if _, err := w.sign(t, i); err != nil {
		t.Fatal(err)
	}
}

// kind shows which kind of error it is.
func kind(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.As(err, new(*vault.InitError)):
		return "init"
	case errors.As(err, new(*vault.UnavailableError)):
		return "unavailable"
	}
	return "refused"
}

// end ends the pool as the process would, and returns when that is done.
func (w *world) end(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.pool.Start(ctx); err != nil {
		t.Fatal(err)
	}
}
