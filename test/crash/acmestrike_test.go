package crash

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
)

// moment is one in the life of an ACME order at which a server is killed.
type moment struct {
	// what is the kind of a request to the CA, validating or one of the DNS
	// updates.
	what string
	when when
}

func (m moment) String() string { return fmt.Sprintf("%s %s", m.what, m.when) }

// when is the progress of a step.
type when string

const (
	// before: it was asked for, and is not going to be done.
	before when = "not done"
	// unanswered means that the step was done, and the caller gets no answer.
	unanswered when = "done, without an answer"
	// answered: it was done, and the answer is on its way, or was received, or
	// has been stored.
	answered when = "done and answered"
)

var whens = []when{before, unanswered, answered}

// What is not a request to the CA.
const (
	validating = "validation"
	addTXT     = "addition of a TXT record"
	deleteTXT  = "deletion of a TXT record"
)

// strike is a kill of the server at a moment.
type strike struct {
	moment
	// delay is the time from an answer to the kill.
	delay time.Duration
}

// The parts of a plan as text.
const (
	nextText  = "; "
	afterText = " + "
)

func (s strike) String() string {
	if s.when != answered {
		return s.moment.String()
	}
	return s.moment.String() + afterText + s.delay.String()
}

// planText returns what parsePlan parses.
func planText(plan []strike) string {
	var all []string
	for _, s := range plan {
		all = append(all, s.String())
	}
	return strings.Join(all, nextText)
}

func parsePlan(text string) ([]strike, error) {
	var plan []strike
	for part := range strings.SplitSeq(text, nextText) {
		name, after, delayed := strings.Cut(part, afterText)
		m, err := parseMoment(name)
		if err != nil {
			return nil, err
		}
		s := strike{moment: m}
		if delayed {
			if s.delay, err = time.ParseDuration(after); err != nil {
				return nil, fmt.Errorf("%s: %w", m, err)
			}
		}
		plan = append(plan, s)
	}
	return plan, nil
}

func parseMoment(name string) (moment, error) {
	for _, what := range steps {
		for _, when := range whens {
			if m := (moment{what, when}); m.String() == name {
				return m, nil
			}
		}
	}
	return moment{}, fmt.Errorf("there is no moment %q", name)
}

// armed is a strike that is still to come.
type armed struct {
	strike
	// later are the steps at which the server is to be killed after this one.
	later []string
	// struck is closed when the server is dead.
	struck chan struct{}
	// claimed is set when the moment has come.
	claimed bool
	// accepting is set while the CA processes a request for a challenge.
	accepting bool
}

// holds reports whether a step has to wait until the server is dead, so that it
// is still to come after that: from the moment until the death, which takes a
// while, each step at which the server is to be killed later. Two steps could
// be over before the moment:
//
//   - the CA validates while it processes a request for a challenge. If it
//     processed all at the same time, no such request would be left;
//   - an order can be finalized before the records of its challenges are deleted.
func (a *armed) holds(what string) bool {
	switch {
	case a == nil || !slices.Contains(a.later, what):
		return false
	case a.claimed:
		return true
	case what == string(acmetest.Challenge):
		return a.what == validating && a.accepting
	}
	return what == string(acmetest.Finalize) && a.what == deleteTXT
}

// arm has the server be killed at the first moment of the plan, so that the
// others are still to come.
func (w *acmeWorld) arm(plan []strike) *armed {
	a := &armed{strike: plan[0], struck: make(chan struct{})}
	for _, s := range plan[1:] {
		a.later = append(a.later, s.what)
	}
	w.set(a)
	return a
}

// freeze has every step wait until a moment is armed, or the server is dead.
func (w *acmeWorld) freeze() *armed {
	a := &armed{later: steps, claimed: true, struck: make(chan struct{})}
	w.set(a)
	return a
}

func (w *acmeWorld) set(a *armed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = a
	w.changed.Broadcast()
}

// disarm reports whether the armed moment has not come. If it has, disarm returns
// when the server is dead: a kill is later than the answer that it follows.
func (w *acmeWorld) disarm() (missed bool) {
	w.mu.Lock()
	was := w.armed
	missed = !was.claimed
	if missed {
		w.armed = nil
		w.changed.Broadcast()
	}
	w.mu.Unlock()
	if !missed {
		<-was.struck
	}
	return missed
}

// claim returns what is armed if this is its moment. It is for one caller only.
func (w *acmeWorld) claim(what string, when when) *armed {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.armed
	if a == nil || a.claimed || a.moment != (moment{what, when}) || !w.process.alive() {
		return nil
	}
	a.claimed = true
	return a
}

// kill kills the server. What was held is lost.
func (w *acmeWorld) kill(a *armed) {
	w.current().kill()
	w.mu.Lock()
	w.changed.Broadcast()
	w.mu.Unlock()
	close(a.struck)
}

// current returns the process that was started last.
func (w *acmeWorld) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process
}

// strikes kills the server if this is the armed moment.
func (w *acmeWorld) strikes(what string, when when) bool {
	a := w.claim(what, when)
	if a != nil {
		w.kill(a)
	}
	return a != nil
}

// lost reports whether a step will not be done: this is the moment before it, or the
// server that requested it was killed since.
func (w *acmeWorld) lost(what string) bool {
	w.mu.Lock()
	asker := w.process
	for asker.alive() && w.armed.holds(what) {
		w.changed.Wait()
	}
	dead := !asker.alive()
	if !dead && what == string(acmetest.Challenge) && w.armed != nil {
		w.armed.accepting = true
	}
	w.mu.Unlock()
	return dead || w.strikes(what, before)
}

// done kills the server if this is the armed moment, now or a little later.
func (w *acmeWorld) done(what string) {
	if w.strikes(what, unanswered) {
		return
	}
	if a := w.claim(what, answered); a != nil {
		time.AfterFunc(a.delay, func() { w.kill(a) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if what == string(acmetest.Challenge) && w.armed != nil {
		w.armed.accepting = false
		w.changed.Broadcast()
	}
}

// requested is called for each request to the CA.
func (w *acmeWorld) requested(c acmetest.Call) *acmetest.Reply {
	what := string(c.Kind)
	if w.lost(what) {
		return &acmetest.Reply{Lost: true}
	}
	return &acmetest.Reply{Acted: func() { w.done(what) }}
}

// updateLost is called for each DNS update.
func (w *acmeWorld) updateLost(_ dns.ResponseWriter, update *dns.Msg) bool {
	return w.lost(updateStep(update))
}

func (w *acmeWorld) updated(update *dns.Msg) { w.done(updateStep(update)) }

func updateStep(update *dns.Msg) string {
	if dnstest.IsDeletion(update) {
		return deleteTXT
	}
	return addTXT
}
