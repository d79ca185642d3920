package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

var (
	acmeKillsFlag = flag.Int("acme-kills", 0, "how often TestKillDuringOrder kills, at moments that it draws; 0 is once at each moment")
	acmeRoundFlag = flag.String("acme-round", "", "the one round that TestKillDuringOrder runs, as a failed one has printed it")
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
	t.Parallel()
	switch {
	case *acmeRoundFlag != "":
		plan, err := parsePlan(*acmeRoundFlag)
		if err != nil {
			t.Fatalf("-acme-round: %v", err)
		}
		w := newACMEWorld(t, acmetest.Options{})
		w.wholeRound(plan)
		w.report()
	case *acmeKillsFlag == 0:
		for _, when := range whens {
			t.Run(string(when), func(t *testing.T) { killAtEachStep(t, when) })
		}
	default:
		w := newACMEWorld(t, acmetest.Options{})
		w.drawRounds(*acmeKillsFlag)
		w.report()
	}
}

// killAtEachStep kills a server at all steps of one order.
func killAtEachStep(t *testing.T, when when) {
	t.Parallel()
	w := newACMEWorld(t, acmetest.Options{})
	var plan []strike
	for _, what := range steps {
		plan = append(plan, w.strikeAt(what, when))
	}
	w.wholeRound(plan)
	w.report()
}

// drawRounds kills the server that often, at moments that it draws. Some are
// missed: without a kill before, an order is read when all challenges are over.
func (w *acmeWorld) drawRounds(kills int) {
	w.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	w.Logf("run it again with -acme-kills %d -seed %d", kills, seed)
	w.random = rand.New(rand.NewPCG(seed, 0))
	for w.kills < kills && !w.Failed() {
		for _, m := range w.round(w.draw(min(3, kills-w.kills))) {
			w.Logf("%s: there was no moment %q", w.name, m)
		}
	}
}

// draw returns up to most strikes at different steps, in their order.
func (w *acmeWorld) draw(most int) []strike {
	drawn := w.random.Perm(len(steps))[:1+w.random.IntN(most)]
	slices.Sort(drawn)
	var plan []strike
	for _, i := range drawn {
		plan = append(plan, w.strikeAt(steps[i], whens[w.random.IntN(len(whens))]))
	}
	return plan
}

// strikeAt returns a strike with a delay that it draws.
func (w *acmeWorld) strikeAt(what string, when when) strike {
	s := strike{moment: moment{what, when}}
	if when == answered {
		s.delay = time.Duration(w.random.Int64N(int64(50 * time.Millisecond)))
	}
	return s
}

// wholeRound is a round in which no moment may be missed.
func (w *acmeWorld) wholeRound(plan []strike) {
	w.Helper()
	if missed := w.round(plan); len(missed) > 0 {
		w.wrong("these moments did not come: %q", missed)
	}
}

// round has a certificate issued, kills the server at each moment of the plan,
// and checks what is left. It returns the moments that there were not.
func (w *acmeWorld) round(plan []strike) (missed []moment) {
	w.Helper()
	began, ended := time.Now(), false
	defer func() {
		if !ended {
			w.Log(w.again())
		}
	}()
	a := w.begin(plan)
	for i, s := range plan {
		if i > 0 {
			a = w.arm(plan[i:])
		}
		w.restartIfDead()
		if !w.reached(a) {
			missed = append(missed, s.moment)
			continue
		}
		w.kills++
		w.times[s.moment]++
		w.struck = append(w.struck, s.moment)
	}
	w.set(nil)
	w.restartIfDead()
	w.finish(w.name)
	w.longest = max(w.longest, time.Since(began)/time.Duration(1+len(w.struck)))
	w.verify()
	ended = true
	return missed
}

// begin requests the certificate of a round. Nothing is done for it before the
// server is armed.
func (w *acmeWorld) begin(plan []strike) *armed {
	w.Helper()
	w.rounds++
	w.name, w.plan, w.struck = fmt.Sprintf("round%d", w.rounds), plan, nil
	frozen := w.freeze()
	w.request(w.name, namesOf(w.name)...)
	if first := plan[0].what; first == string(acmetest.Directory) || first == string(acmetest.NewNonce) { // which a process asks for once
		w.kill(frozen)
	}
	return w.arm(plan)
}
