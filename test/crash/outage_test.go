package crash

import (
	"errors"
	"flag"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
)

// outageFlag can make the outage longer, never shorter: a request that meets a store that
// does not answer is answered by the server's own deadline, half a minute later, and the
// outage lasts until each kind of request was.
var outageFlag = flag.Duration("outage", 0, "how long the store is away in TestOutageOfStore, if that is longer than its clients wait for an answer")

// The store of two servers does not answer, or refuses connections, from the moment at
// which the request of an order is written. During the outage, each client gets an answer
// to retry, in the form of RFC 8555, in time and without a loop of nonces. Afterwards each
// order in progress gets exactly one certificate.
func TestOutageOfStore(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		begin, end func(*replicas)
		// stored is set if the write at whose moment the outage begins is done before it.
		stored bool
	}{
		{"does not answer", func(r *replicas) { r.signalStore(syscall.SIGSTOP) }, func(r *replicas) { r.signalStore(syscall.SIGCONT) }, false},
		{"refuses connections", func(r *replicas) { r.store.kill() }, func(r *replicas) { r.store.process = startReady(r.T, r.store.role) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := &outage{begun: make(chan struct{})}
			at := func(stored bool) func(string) bool {
				return func(key string) bool {
					if stored == tc.stored && strings.HasPrefix(key, csrKeys+"acme-") {
						o.strike(tc.begin)
					}
					return true
				}
			}
			o.replicas = newReplicas(t, func(_ int, endpoint string) string {
				return newStoreProxy(t, endpoint, at(false), at(true)).address
			})
			o.run(tc.end)
		})
	}
}

func (r *replicas) signalStore(s syscall.Signal) {
	if err := r.store.command.Process.Signal(s); err != nil {
		r.Error(err)
	}
}

// outage is a time without the store.
type outage struct {
	*replicas
	// armed is set when the next request of an order is the moment.
	armed atomic.Bool
	begun chan struct{}
	// away is set while the store is away.
	away atomic.Bool
	seen *witness
}

// strike begins the outage if it is armed.
func (o *outage) strike(begin func(*replicas)) {
	if o.armed.CompareAndSwap(true, false) {
		begin(o.replicas)
		o.away.Store(true)
		close(o.begun)
	}
}

// run has clients begin, takes the store away, and has them end.
func (o *outage) run(end func(*replicas)) {
	o.warm()
	o.seen = newWitness(o.balancer, &o.away)
	history := o.followed()
	all := o.visitors()
	for _, v := range all {
		if err := v.prepare(v); err != nil {
			o.Fatalf("%s: %v", v.name, err)
		}
	}
	accounts := o.accounts()
	validating := o.validating(all[len(all)-2])
	began := time.Now()
	stop := o.visit(all[:len(all)-1], all[len(all)-1])
	close(validating) // what is found out now cannot be stored
	select {
	case <-o.seen.everybody(len(all)):
	case <-time.After(2 * timeout):
		o.Errorf("only these were told that the store is away: %v", o.seen.toldOf())
	}
	if rest := time.Until(began.Add(*outageFlag)); rest > 0 {
		<-time.After(rest)
	}
	o.Logf("the store was away for %v; answers: %v", time.Since(began).Round(time.Second), o.seen.tally())
	o.away.Store(false)
	end(o.replicas)
	stop()
	for wrong := range o.seen.wrong {
		o.Error(wrong)
	}
	o.after(all, history)
	if now := o.accounts(); now != accounts+1 {
		o.Errorf("%d accounts, there were %d and one client has registered", now, accounts)
	}
}

// validating has a client begin a validation that is not answered until the channel is
// closed.
func (o *outage) validating(v *visitor) chan struct{} {
	o.Helper()
	held := make(chan struct{})
	o.held.Store(&held)
	before := o.asked.Load()
	if err := o.accept(v); err != nil {
		o.Fatal(err)
	}
	apitest.Eventually(o, "the challenge is tried", func() bool { return o.asked.Load() > before })
	return held
}

// visit begins the outage in the middle of what one client does, and has all of them ask
// the whole time. It returns when the store is away; stop waits for the last answers.
func (o *outage) visit(others []*visitor, first *visitor) (stop func()) {
	o.Helper()
	var group sync.WaitGroup
	ended := make(chan struct{})
	ask := func(v *visitor) {
		var was error
		for {
			err := v.ask(v)
			var problem *acme.Error
			switch {
			case o.away.Load() && err != nil && !errors.As(err, &problem):
				o.Errorf("%s: %v", v.name, err)
			case isBadNonce(err) && isBadNonce(was):
				o.Errorf("%s: two nonces in a row are refused", v.name)
			}
			was = err
			select {
			case <-ended:
				return
			case <-time.After(time.Second / 4): // a loop without a pause would be a flood
			}
		}
	}
	o.armed.Store(true)
	group.Go(func() { ask(first) })
	select {
	case <-o.begun:
	case <-time.After(timeout):
		o.Fatal("no request of an order was written")
	}
	for _, v := range others {
		group.Go(func() { ask(v) })
	}
	return func() {
		close(ended)
		group.Wait()
	}
}

func isBadNonce(err error) bool {
	var problem *acme.Error
	return errors.As(err, &problem) && problem.ProblemType == rfc8555.Namespace+rfc8555.ProblemBadNonce
}

// after has each client get its certificate, by the order that it has.
func (o *outage) after(all []*visitor, history *history) {
	o.Helper()
	for _, v := range all {
		if err := o.end(v); err != nil {
			o.Errorf("%s: %v", v.name, err)
			continue
		}
		o.verify(v.address, v.cert, v.name)
	}
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := o.acme.Objects.List(o.Context(), requests); err != nil {
		o.Fatal(err)
	}
	made := 0
	for _, csr := range requests.Items {
		if strings.HasPrefix(csr.Name, "acme-") {
			made++
		}
	}
	if made != len(all) {
		o.Errorf("%d requests were made for %d orders", made, len(all))
	}
	_, two, _ := history.verdicts(nil)
	if len(two) > 0 || len(history.twins) > 0 {
		o.Errorf("two certificates: %q %q", two, history.twins)
	}
}

func (o *outage) accounts() int {
	o.Helper()
	o.acme.Server = o.api(0)
	o.acme.Connect()
	list := &v1alpha1.AcmeAccountList{}
	if err := o.acme.Objects.List(o.Context(), list); err != nil {
		o.Fatal(err)
	}
	return len(list.Items)
}
