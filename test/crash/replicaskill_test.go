package crash

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/sealed"
)

var serverKillsFlag = flag.Int("acme-server-kills", 0, "how often TestKillAtWritesOfOrders kills, at writes that it draws; 0 is once at each write of an order")

// mostWrites is how many writes of an order and of its request are looked for at most.
const mostWrites = 16

// writeStrike kills the server that makes one of the writes of an order.
type writeStrike struct {
	number int // the first is 1
	when   when
}

// strikes counts some writes of servers, such as those of one order, and kills one of them at
// one.
type strikes struct {
	t    *testing.T
	kill func(server int)
	// counts reports whether writes of a key count.
	counts func(key string) bool

	mu     sync.Mutex
	armed  writeStrike
	writes []string
	struck string // the key of the write; empty if nobody was killed
	victim int
	dead   chan struct{} // closed when the victim is dead
}

// arm has the next order be the one.
func (s *strikes) arm(at writeStrike) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.writes, s.struck, s.dead = at, nil, "", make(chan struct{})
}

// ofOrders reports whether a key is about orders: what two servers write for them.
func ofOrders(key string) bool {
	return strings.Contains(key, "/acmeorders/") || strings.Contains(key, "/acmeaccounts/") || strings.HasPrefix(key, csrKeys+"acme-")
}

// before is called before server i writes.
func (s *strikes) before(i int, key string) bool {
	if !s.counts(key) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, key)
	return !s.strike(i, key, before)
}

// after is called when server i has written.
func (s *strikes) after(i int, key string) bool {
	if !s.counts(key) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.strike(i, key, unanswered)
}

// strike kills server i if this is the moment. Its caller holds mu. If a write is
// answered, the death comes a little later.
func (s *strikes) strike(i int, key string, now when) bool {
	at := s.armed
	late := at.when == answered && now == unanswered
	if s.struck != "" || at.number == 0 || len(s.writes) != at.number || at.when != now && !late {
		return false
	}
	s.struck, s.victim = key, i
	dead := s.dead
	delay := time.Duration(0)
	if late {
		delay = time.Duration(rand.Int64N(int64(30 * time.Millisecond)))
	}
	time.AfterFunc(delay, func() {
		s.kill(i)
		close(dead)
	})
	return !late
}

// killed waits until the victim is dead, and returns it; false if there is none.
func (s *strikes) killed() (victim int, key string, any bool) {
	s.mu.Lock()
	victim, key, dead := s.victim, s.struck, s.dead
	s.mu.Unlock()
	if key == "" {
		return 0, "", false
	}
	<-dead
	return victim, key, true
}

func (s *strikes) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes)
}

// Either of two servers is killed at each write of an order: before it, after it without
// an answer, or a little later. The client's next call reaches the other server and
// continues; the order gets one request and one certificate.
func TestKillAtWritesOfOrders(t *testing.T) {
	t.Parallel()
	s := &strikes{t: t, counts: ofOrders}
	r := newReplicas(t, func(i int, endpoint string) string {
		return newStoreProxy(t, endpoint, func(key string) bool { return s.before(i, key) }, func(key string) bool { return s.after(i, key) }).address
	})
	s.kill = func(i int) { r.servers[i].kill() }
	history := r.followed()
	c := r.register()
	kills := 0
	round := func(n int, at writeStrike) {
		s.arm(at)
		of := address(n)
		cert, err := r.patiently(c, of)
		victim, key, any := s.killed()
		if err != nil {
			t.Errorf("round %d, %q at write %d, %s: %v\n%s", n, at.when, at.number, key, err, strings.Join(s.writes, "\n"))
		}
		if any {
			kills++
			r.servers[victim].process = startReady(t, r.servers[victim].role)
		}
		if err == nil {
			r.verify(of, cert, fmt.Sprintf("round %d, %q at write %d of server %d, %s", n, at.when, at.number, victim, key))
		}
	}
	if *serverKillsFlag > 0 {
		for n := 1; kills < *serverKillsFlag && !t.Failed(); n++ {
			round(n, writeStrike{1 + rand.IntN(mostWrites-4), whens[rand.IntN(len(whens))]})
		}
	} else {
		for n := 1; n <= mostWrites && !t.Failed(); n++ {
			if round(n, writeStrike{n, whens[n%len(whens)]}); s.count() < n {
				break
			}
		}
	}
	t.Logf("%d kills; the last order was written by %q", kills, s.writes)
	// The order, its proof, its finalization, the request and the certificate.
	if kills < 5 && *serverKillsFlag == 0 {
		t.Errorf("an order was written %d times only", kills)
	}
	_, two, _ := history.verdicts(nil)
	if len(two) > 0 || len(history.twins) > 0 {
		t.Errorf("two certificates: %q %q", two, history.twins)
	}
}

// followed reads all revisions of requests from the store itself.
func (r *replicas) followed() *history {
	r.Helper()
	keys, err := sealed.Load(r.Context(), datadir.Dir(r.servers[0].role.Dir).EncryptionKeys())
	if err != nil {
		r.Fatal(err)
	}
	h, err := newHistory(r.Context(), r.store.role.Listen, keys)
	if err != nil {
		r.Fatal(err)
	}
	go h.follow(r.Context())
	return h
}

// patiently gets a certificate for an address. What fails is tried again, as clients do
// that are started again.
func (r *replicas) patiently(c *acme.Client, address string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	var order *acme.Order
	err := again(ctx, func() (err error) {
		if order == nil {
			if order, err = c.AuthorizeOrder(ctx, acme.IPIDs(address)); err != nil {
				order = nil
				return err
			}
		}
		ready, err := r.proveOrder(ctx, c, order)
		if err == nil {
			order = ready
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(address)}}, apitest.NewKey(r))
	if err != nil {
		return nil, err
	}
	var cert *x509.Certificate
	err = again(ctx, func() error {
		chain, _, err := c.CreateOrderCert(ctx, order.FinalizeURL, csr, false)
		if err == nil {
			cert, err = x509.ParseCertificate(chain[0])
		}
		return err
	})
	return cert, err
}

// again does something until it succeeds, and returns its last error otherwise.
func again(ctx context.Context, do func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// verify checks the stored orders for an address.
func (r *replicas) verify(address string, cert *x509.Certificate, what string) {
	r.Helper()
	r.acme.Server = r.api(0)
	r.acme.Connect()
	orders, requests := &v1alpha1.AcmeOrderList{}, &certificatesv1.CertificateSigningRequestList{}
	if err := errors.Join(r.acme.Objects.List(r.Context(), orders, client.InNamespace(r.acme.Namespace)), r.acme.Objects.List(r.Context(), requests)); err != nil {
		r.Fatal(err)
	}
	valid := 0
	for _, o := range orders.Items {
		if !slices.ContainsFunc(o.Spec.Identifiers, func(id v1alpha1.AcmeIdentifier) bool { return id.Value == address }) {
			continue
		}
		name := "acme-" + o.Name
		i := slices.IndexFunc(requests.Items, func(c certificatesv1.CertificateSigningRequest) bool { return c.Name == name })
		if o.Status.State != v1alpha1.AcmeOrderValid {
			// The client has not learned of it.
			if i >= 0 || o.Status.Request != nil || len(o.Status.CSR) > 0 {
				r.Errorf("%s: an order that no client knows of is %+v", what, o.Status)
			}
			continue
		}
		valid++
		if i < 0 || string(requests.Items[i].UID) != string(o.Status.Request.UID) {
			r.Errorf("%s: the request of the order is %+v", what, o.Status.Request)
			continue
		}
		block, _ := pem.Decode(requests.Items[i].Status.Certificate)
		if block == nil || string(block.Bytes) != string(cert.Raw) {
			r.Errorf("%s: the request has another certificate than the client got", what)
		}
	}
	if valid != 1 {
		r.Errorf("%s: %d orders are valid", what, valid)
	}
}

// The server that tries a challenge is killed while it waits for the answer. The other
// one tries it again, and the client sees processing until then. A server that is
// stopped in the same state finishes what clients have sent.
func TestLosingTheServerThatValidates(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, func(_ int, endpoint string) string { return endpoint })
	c := r.register()
	for n, end := range []func(*host){func(h *host) { h.kill() }, func(h *host) { h.stop(t) }} {
		held := make(chan struct{})
		r.held.Store(&held)
		before := r.asked.Load()
		done := make(chan error, 1)
		go func() {
			cert, err := r.patiently(c, address(n+1))
			if err == nil && cert == nil {
				err = errors.New("there is no certificate")
			}
			done <- err
		}()
		apitest.Eventually(t, "the challenge is tried", func() bool { return r.asked.Load() > before })
		victim := r.servers[n] // the first one leads until it is lost, then the other one
		end(victim)
		r.held.Store(nil)
		close(held)
		if err := <-done; err != nil {
			t.Errorf("after the loss of server %d: %v", victim.server, err)
		}
		victim.process = startReady(t, victim.role)
	}
}
