package peers_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
	"github.com/certplane/certplane/internal/acme/acmeserver/peers"
	"github.com/certplane/certplane/internal/apitest"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// process is one process of the ACME server.
type process struct {
	*peers.Peers
	instance nonce.Instance
	address  string
	leave    func()
	// ahead is by how much its clock is.
	ahead atomic.Int64
	// redeemed counts nonces; all are good but those that begin with "bad". While it
	// is held, there is no answer.
	redeemed atomic.Int64
	held     chan struct{}
}

// lease returns a Lease for a test.
func lease(t *testing.T, s *apitest.Server) client.ObjectKey {
	return client.ObjectKey{Namespace: apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t))), Name: "peers"}
}

// join starts a process, which reaches others by the address that it is given, if any.
func join(t *testing.T, s *apitest.Server, lease client.ObjectKey, edits ...func(*peers.Config)) *process {
	t.Helper()
	objects, err := cache.New(s.Admin(t), cache.Options{Scheme: scheme.Scheme, ByObject: map[client.Object]cache.ByObject{&coordinationv1.Lease{}: peers.Cached(lease)}})
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(s.Admin(t), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{held: make(chan struct{})}
	close(p.held)
	now := func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	nonces, err := nonce.New(now)
	if err != nil {
		t.Fatal(err)
	}
	p.instance = nonces.Instance()
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.ServeHTTP(w, r) }))
	p.address = web.Listener.Addr().String()
	cfg := peers.Config{
		Instance: p.instance, Address: p.address, Lease: lease, Client: api, Cache: objects, Now: now,
		Redeem: func(text string) bool {
			p.redeemed.Add(1)
			<-p.held
			return !strings.HasPrefix(text, "bad")
		},
	}
	for _, edit := range edits {
		edit(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	if p.Peers, err = peers.New(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	web.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return p.TLS(hello), nil }}
	web.StartTLS()
	cached := make(chan error, 1)
	go func() { cached <- objects.Start(ctx) }()
	running, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() { p.Run(running); close(left) }()
	p.leave = func() { leave(); <-left }
	t.Cleanup(func() {
		p.leave()
		web.Close()
		stop()
		<-cached
	})
	return p
}

func (p *process) asks(t *testing.T, of *process, text string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return p.Redeem(ctx, of.instance, text)
}

// knows waits until a process knows another one.
func (p *process) knows(t *testing.T, other *process) {
	t.Helper()
	apitest.Eventually(t, "a process knows the other", func() bool { return p.asks(t, other, "good") })
}

func TestProcessesRedeemNoncesOfOthers(t *testing.T) {
	s := shared.Start(t)
	of := lease(t, s)
	a, b := join(t, s, of), join(t, s, of)
	a.knows(t, b)
	b.knows(t, a)
	if a.asks(t, b, "bad") || !a.asks(t, b, "good") {
		t.Error("what the other process says does not count")
	}
	before := b.redeemed.Load()
	if a.Redeem(t.Context(), nonce.Instance{1}, "good") || b.redeemed.Load() != before {
		t.Error("a process that nobody knows was asked")
	}
	if !a.At(netip.MustParseAddr("127.0.0.1")) || a.At(netip.MustParseAddr("127.0.0.2")) {
		t.Error("the addresses of peers are not known")
	}

	b.held = make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if a.Redeem(ctx, b.instance, "good") {
		t.Error("an answer has come too early")
	}
	close(b.held)

	b.leave()
	apitest.Eventually(t, "the process that has left is not asked", func() bool {
		before := b.redeemed.Load()
		return !a.asks(t, b, "good") && b.redeemed.Load() == before
	})
}

// A process that was killed leaves its entry. It is not asked for long, and the others
// remove the entry.
func TestEntriesOfTheDeadAreRemoved(t *testing.T) {
	s := shared.Start(t)
	of := lease(t, s)
	a := join(t, s, of)
	dead := join(t, s, of, func(c *peers.Config) { c.Client = once{Client: c.Client, done: new(atomic.Bool)} })
	a.knows(t, dead)
	a.ahead.Add(int64(16 * time.Second))
	before := dead.redeemed.Load()
	if a.asks(t, dead, "good") || dead.redeemed.Load() != before {
		t.Error("a process whose entry is old was asked")
	}
	a.ahead.Add(int64(time.Minute))
	leases := apitest.Client(t, s.Admin(t)).CoordinationV1().Leases(of.Namespace)
	apitest.Eventually(t, "the entry is removed", func() bool {
		stored, err := leases.Get(t.Context(), of.Name, metav1.GetOptions{})
		return err == nil && len(stored.Annotations) == 1
	})
}

// While the store is away, nobody's entry changes. Processes know each other all the same,
// and do not remove each other's entries when it is back.
func TestNoEntryAgesWithoutTheStore(t *testing.T) {
	s := shared.Start(t)
	of := lease(t, s)
	api := unreliable{away: new(atomic.Bool), refused: new(atomic.Int64), written: new(atomic.Int64)}
	a := join(t, s, of, func(c *peers.Config) { api.Client = c.Client; c.Client = api })
	b := join(t, s, of, func(c *peers.Config) { c.Client = once{Client: c.Client, done: new(atomic.Bool)} })
	a.knows(t, b)
	api.away.Store(true)
	apitest.Eventually(t, "the process cannot write", func() bool { return api.refused.Load() > 1 })
	a.ahead.Add(int64(2 * time.Minute))
	if !a.asks(t, b, "good") {
		t.Error("a process is not asked, though nobody can know that it is gone")
	}
	before := api.written.Load()
	api.away.Store(false)
	apitest.Eventually(t, "the process writes", func() bool { return api.written.Load() > before })
	if !a.asks(t, b, "good") {
		t.Error("a process is forgotten before it can write its entry")
	}
	stored, err := apitest.Client(t, s.Admin(t)).CoordinationV1().Leases(of.Namespace).Get(t.Context(), of.Name, metav1.GetOptions{})
	if err != nil || len(stored.Annotations) != 2 {
		t.Errorf("the entries are %v, %v", stored.Annotations, err)
	}
}

// unreliable is a client that cannot write while the store is away.
type unreliable struct {
	client.Client
	away             *atomic.Bool
	refused, written *atomic.Int64
}

func (u unreliable) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if u.away.Load() {
		u.refused.Add(1)
		return apierrors.NewTimeoutError("the store is away", 1)
	}
	err := u.Client.Patch(ctx, object, patch, options...)
	u.written.Add(1)
	return err
}

// once is a client that writes once.
type once struct {
	client.Client
	done *atomic.Bool
}

func (o once) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if o.done.Load() {
		return context.Canceled
	}
	err := o.Client.Patch(ctx, object, patch, options...)
	o.done.Store(err == nil)
	return err
}

func (o once) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	err := o.Client.Create(ctx, object, options...)
	o.done.Store(err == nil)
	return err
}

// Who is no peer is not answered, and is not asked.
func TestStrangers(t *testing.T) {
	s := shared.Start(t)
	of := lease(t, s)
	a, b := join(t, s, of), join(t, s, of)
	a.knows(t, b)
	before := b.redeemed.Load()
	for _, tc := range []struct {
		reason string
		config *tls.Config
	}{
		{"no certificate", &tls.Config{ServerName: "peers.certplane.invalid", InsecureSkipVerify: true}},
		{"a certificate that no process has", &tls.Config{ServerName: "peers.certplane.invalid", InsecureSkipVerify: true, Certificates: httpCertificates(t)}},
	} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: tc.config}, Timeout: 10 * time.Second}
		if answer, err := c.Post("https://"+b.address+"/", "", strings.NewReader("good")); err == nil {
			answer.Body.Close()
			t.Errorf("%s: %s", tc.reason, answer.Status)
		}
	}
	if b.redeemed.Load() != before {
		t.Error("a stranger has redeemed a nonce")
	}

	// The address of a process is taken over by another program.
	var asked atomic.Bool
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		w.WriteHeader(http.StatusNoContent)
	}))
	var connected atomic.Bool
	other.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connected.Store(true)
		}
	}
	other.StartTLS()
	defer other.Close()
	gone := join(t, s, of, func(c *peers.Config) { c.Address = other.Listener.Addr().String() })
	apitest.Eventually(t, "the address is tried", func() bool { return !a.asks(t, gone, "good") && (connected.Load() || asked.Load()) })
	if asked.Load() {
		t.Error("a program was asked that has another key")
	}
}

func httpCertificates(t *testing.T) []tls.Certificate {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	return web.TLS.Certificates
}

// A clock that is off is seen, and does not make a process dead.
func TestSkew(t *testing.T) {
	s := shared.Start(t)
	of := lease(t, s)
	a, b := join(t, s, of), join(t, s, of)
	a.knows(t, b)
	if got := a.Skew(); got.Abs() > 30*time.Second {
		t.Errorf("the clock is off by %v", got)
	}
	b.ahead.Store(int64(-time.Hour))
	apitest.Eventually(t, "the clock is seen to be off", func() bool { return a.Skew() < -59*time.Minute })
	if !a.asks(t, b, "good") {
		t.Error("a process whose clock is off is not asked")
	}
}
