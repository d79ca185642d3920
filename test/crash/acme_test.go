package crash

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

var acmeKillsFlag = flag.Int("acme-kills", 0, "how often TestKillDuringOrder kills, at moments that it draws; 0 is once at each moment")

// moment is one in the life of an ACME order at which a server is killed.
type moment struct {
	// what is the kind of a request to the CA, validating or one of the DNS
	// updates.
	what string
	when when
}

func (m moment) String() string { return fmt.Sprintf("%s %s", m.what, m.when) }

// when says how far something has come.
type when string

const (
	// before: it was asked for, and is not going to be done.
	before when = "not done"
	// unanswered: it was done, and nobody is told.
	unanswered when = "done, without an answer"
	// answered: it was done, and the answer is on its way, or was received, or
	// has been stored.
	answered when = "done and answered"
)

// What is not a request to the CA.
const (
	validating = "validation"
	addTXT     = "addition of a TXT record"
	deleteTXT  = "deletion of a TXT record"
)

// steps are what happens during an order, in an order in which each of them is
// still to come after a kill at one before: for what a process has only
// remembered, the CA is asked again.
var steps = []string{
	string(acmetest.NewAccount), string(acmetest.Directory), string(acmetest.NewNonce), string(acmetest.NewOrder),
	string(acmetest.Authorization), string(acmetest.Order), addTXT, validating, string(acmetest.Challenge), deleteTXT,
	string(acmetest.Finalize), string(acmetest.Certificate),
}

// A server is killed at each step of ACME orders, by DNS and by its own
// responder, and started again. Each Order is placed once, or a second time if
// it could not be known that it was placed; it gets one certificate, and nothing
// is left in the DNS, in the responder and at the CA.
func TestKillDuringOrder(t *testing.T) {
	w := newACMEWorld(t, acmetest.Options{})
	if *acmeKillsFlag == 0 {
		for _, when := range []when{before, unanswered, answered} {
			var moments []moment
			for _, what := range steps {
				moments = append(moments, moment{what, when})
			}
			missed := w.round(moments)
			for _, m := range missed { // it may have been passed just after the kill before
				if again := w.round([]moment{m}); len(again) > 0 {
					t.Errorf("there was no moment %s", m)
				}
			}
		}
		w.report()
		return
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("run it again with -seed %d", seed)
	w.random = rand.New(rand.NewPCG(seed, 0))
	for w.kills < *acmeKillsFlag && !t.Failed() {
		w.round(w.draw(min(3, *acmeKillsFlag-w.kills)))
	}
	w.report()
}

// draw returns up to most moments of different steps, in their order.
func (w *acmeWorld) draw(most int) []moment {
	drawn := w.random.Perm(len(steps))[:1+w.random.IntN(most)]
	slices.Sort(drawn)
	var moments []moment
	for _, i := range drawn {
		moments = append(moments, moment{steps[i], []when{before, unanswered, answered}[w.random.IntN(3)]})
	}
	return moments
}

// round has a certificate issued, kills the server at each of the moments, and
// checks what is left. It returns the moments that there were not.
func (w *acmeWorld) round(moments []moment) (missed []moment) {
	w.Helper()
	w.rounds++
	name := fmt.Sprintf("round%d", w.rounds)
	began := time.Now()
	for i, m := range moments {
		struck := w.arm(m)
		if i == 0 {
			if m.what == string(acmetest.Directory) || m.what == string(acmetest.NewNonce) { // which a process asks for once
				w.process.kill()
				w.restart()
			}
			w.request(name, namesOf(name)...)
		}
		if !w.reached(name, struck) {
			w.Logf("%s: there was no %s", name, m)
			missed = append(missed, m)
			continue
		}
		w.kills++
		w.times[m]++
		w.restart()
	}
	w.disarm()
	w.finish(name)
	w.longest = max(w.longest, time.Since(began)/time.Duration(1+len(moments)-len(missed)))
	w.verify(name, slices.DeleteFunc(slices.Clone(moments), func(m moment) bool { return slices.Contains(missed, m) }))
	return missed
}

// tsigKey signs the dynamic updates of the server.
var tsigKey = base64.StdEncoding.EncodeToString([]byte("a key for updates of example.com"))
