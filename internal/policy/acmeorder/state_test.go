package acmeorder_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestOrderState(t *testing.T) {
	e := endpoint(t)
	two := func() *v1alpha1.AcmeOrder { return newOrder(t, e, dns("a.corp.example", "b.corp.example")...) }
	set := func(i int, state string) func(*v1alpha1.AcmeOrder) {
		return func(o *v1alpha1.AcmeOrder) { o.Status.Authorizations[i].State = state }
	}
	ends := func(i int, at time.Time) func(*v1alpha1.AcmeOrder) {
		return func(o *v1alpha1.AcmeOrder) { o.Status.Authorizations[i].Expires = moment(at) }
	}
	for _, tc := range []struct {
		reason string
		change []func(*v1alpha1.AcmeOrder)
		want   string
	}{
		{"new", nil, "pending"},
		{"one of two is proven", []func(*v1alpha1.AcmeOrder){set(0, "valid")}, "pending"},
		{"both are", []func(*v1alpha1.AcmeOrder){set(0, "valid"), set(1, "valid")}, "ready"},
		{"one has failed", []func(*v1alpha1.AcmeOrder){set(0, "valid"), set(1, "invalid")}, "invalid"},
		{"one is deactivated", []func(*v1alpha1.AcmeOrder){set(0, "deactivated")}, "invalid"},
		{"one is revoked", []func(*v1alpha1.AcmeOrder){set(0, "revoked")}, "invalid"},
		{"one proof has expired", []func(*v1alpha1.AcmeOrder){set(0, "valid"), ends(0, now.Add(-time.Minute))}, "invalid"},
		{"clocks differ", []func(*v1alpha1.AcmeOrder){ends(0, now.Add(-59*time.Second))}, "pending"},
		{"the order has expired", []func(*v1alpha1.AcmeOrder){func(o *v1alpha1.AcmeOrder) { o.Status.Expires = moment(now.Add(-time.Minute)) }}, "invalid"},
		{"its status is not written", []func(*v1alpha1.AcmeOrder){func(o *v1alpha1.AcmeOrder) { o.Status = v1alpha1.AcmeOrderStatus{} }}, "pending"},
		{"an authorization is missing", []func(*v1alpha1.AcmeOrder){set(0, "valid"), func(o *v1alpha1.AcmeOrder) { o.Status.Authorizations = o.Status.Authorizations[:1] }}, "pending"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			o := two()
			for _, c := range tc.change {
				c(o)
			}
			if got := acmeorder.OrderState(o, now); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if p := acmeorder.Problem(o, now); (p != nil) != (tc.want == "invalid") {
				t.Errorf("problem %v of an order that is %s", p, tc.want)
			}
		})
	}
}

// An order and its authorizations never disagree, whatever happens in which order,
// and nothing happens that the states of RFC 8555 section 7.1.6 do not permit.
func TestRandomSequences(t *testing.T) {
	e := endpoint(t, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Challenges.Attempts.Count = 2 })
	leaf := someLeaf(t, e)
	reached := map[string]int{}
	r := rand.New(rand.NewPCG(1, 2))
	fresh := newOrder(t, e, dns("a.corp.example", "b.corp.example")...)
	for range 100_000 {
		w := &walk{t: t, e: e, o: fresh, now: now, r: r, leaf: leaf}
		for range 3 + r.IntN(18) {
			w.step()
			reached[acmeorder.OrderState(w.o, w.now)]++
		}
		if t.Failed() {
			return
		}
	}
	for _, state := range []string{"pending", "ready", "processing", "valid", "invalid"} {
		if reached[state] < 1000 {
			t.Errorf("only %d steps had an order that was %s", reached[state], state)
		}
	}
}

func someLeaf(t *testing.T, e *acmeorder.Endpoint) *acmeorder.Leaf {
	key := newKey(t)
	o := finalized(t, e, key, dns("a.corp.example", "b.corp.example")...)
	_, chain := newCA(t).issue(t, o, key.Public(), nil)
	leaf, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: chain, Lifetime: 720 * time.Hour}, now)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// walk is a random sequence of events of one order.
type walk struct {
	t    *testing.T
	e    *acmeorder.Endpoint
	o    *v1alpha1.AcmeOrder
	now  time.Time
	r    *rand.Rand
	leaf *acmeorder.Leaf
}

// moves are the permitted changes of the state of an order, by event.
var moves = map[string][]string{
	"start":      {"pending>pending"},
	"met":        {"pending>pending", "pending>ready"},
	"failed":     {"pending>pending", "pending>invalid"},
	"ours":       {"pending>pending", "pending>invalid"},
	"deactivate": {"pending>invalid", "ready>invalid", "processing>processing", "valid>valid", "invalid>invalid"},
	"finalize":   {"ready>processing"},
	"name":       {"processing>processing"},
	"record":     {"processing>processing", "invalid>invalid"}, // one that has expired, too
	"issue":      {"processing>valid"},
	"fail":       {"processing>invalid", "invalid>invalid"},
	"expire":     {"invalid>invalid"},
	"cancel":     {"pending>invalid", "ready>invalid"},
}

func (w *walk) step() {
	p := acmeorder.Position{Authorization: w.r.IntN(2), Challenge: w.r.IntN(6) / 5}
	if w.r.IntN(16) == 0 { // there may be no such challenge
		p = acmeorder.Position{Authorization: w.r.IntN(4) - 1, Challenge: w.r.IntN(5) - 1}
	}
	failed := rfc8555.NewProblem(400, "connection", "refused")
	attempt := func(a acmeorder.Attempt) func() *v1alpha1.AcmeOrderStatus {
		return func() *v1alpha1.AcmeOrderStatus { return acmeorder.RecordAttempt(w.o, p, a, w.e.Spec(), w.now) }
	}
	events := []struct {
		name   string
		weight int
		do     func() *v1alpha1.AcmeOrderStatus
	}{
		{"start", 12, func() *v1alpha1.AcmeOrderStatus {
			return acmeorder.StartChallenge(w.o, p, w.e.Spec().Challenges.Attempts, w.now)
		}},
		{"met", 12, attempt(acmeorder.Attempt{})},
		{"failed", 2, attempt(acmeorder.Attempt{Problem: failed, Final: w.r.IntN(2) == 0})},
		{"ours", 1, attempt(acmeorder.Attempt{Problem: failed, Ours: true})},
		{"deactivate", 1, func() *v1alpha1.AcmeOrderStatus {
			return acmeorder.DeactivateAuthorization(w.o, p.Authorization, w.now)
		}},
		{"finalize", 12, func() *v1alpha1.AcmeOrderStatus {
			return acmeorder.Finalize(w.o, []byte("csr"), v1alpha1.AcmeRequestReference{Name: "acme-order1"}, 168*time.Hour, w.now)
		}},
		{"record", 4, func() *v1alpha1.AcmeOrderStatus { return acmeorder.RecordRequest(w.o, types.UID("uid"), w.now) }},
		{"issue", 8, func() *v1alpha1.AcmeOrderStatus { return acmeorder.Issue(w.o, w.leaf, w.now) }},
		{"fail", 1, func() *v1alpha1.AcmeOrderStatus { return acmeorder.Fail(w.o, failed, nil, w.now) }},
		{"expire", 1, func() *v1alpha1.AcmeOrderStatus { return acmeorder.Expire(w.o, w.now) }},
		{"cancel", 1, func() *v1alpha1.AcmeOrderStatus { return acmeorder.Cancel(w.o, failed, w.now) }},
	}
	if w.r.IntN(24) == 0 {
		w.now = w.now.Add([]time.Duration{time.Second, time.Minute, 12 * time.Hour, 169 * time.Hour}[w.r.IntN(4)])
		w.check("time")
		return
	}
	total := 0
	for _, ev := range events {
		total += ev.weight
	}
	n := w.r.IntN(total)
	for _, ev := range events {
		if n -= ev.weight; n < 0 {
			w.apply(ev.name, ev.do)
			return
		}
	}
}

func (w *walk) apply(event string, do func() *v1alpha1.AcmeOrderStatus) {
	before, stored := acmeorder.OrderState(w.o, w.now), w.o.Status.State
	s := do()
	if s == nil {
		return
	}
	w.o = &v1alpha1.AcmeOrder{ObjectMeta: w.o.ObjectMeta, Spec: w.o.Spec, Status: *s}
	after := acmeorder.OrderState(w.o, w.now)
	if !slices.Contains(moves[event], before+">"+after) {
		w.t.Errorf("%s: %s became %s", event, before, after)
	}
	if (stored == "valid" || stored == "invalid") && w.o.Status.State != stored {
		w.t.Errorf("%s: an order that was stored as %s is %s", event, stored, w.o.Status.State)
	}
	w.check(event)
}

// check compares the order with its authorizations, without the code under test.
func (w *walk) check(event string) {
	state, s := acmeorder.OrderState(w.o, w.now), &w.o.Status
	over := func(t *metav1.Time) bool { return !w.now.Before(t.Add(time.Minute)) }
	proven, pending, ended := 0, 0, 0
	for i := range s.Authorizations {
		a := &s.Authorizations[i]
		met, failed := 0, 0
		for _, c := range a.Challenges {
			switch c.State {
			case "valid":
				met++
			case "invalid":
				failed++
			}
		}
		if met > 1 || failed > 1 || a.State == "valid" && met != 1 || a.State == "invalid" && failed != 1 {
			w.t.Errorf("%s: an authorization is %s with %d challenges that are valid and %d that are invalid", event, a.State, met, failed)
		}
		switch {
		case (a.State == "valid" || a.State == "pending") && over(a.Expires), a.State != "valid" && a.State != "pending":
			ended++
		case a.State == "valid":
			proven++
		default:
			pending++
		}
	}
	want := string(s.State)
	if s.State == "" || s.State == "processing" {
		switch {
		case over(s.Expires), s.State == "" && ended > 0:
			want = "invalid"
		case s.State == "" && pending > 0:
			want = "pending"
		case s.State == "":
			want = "ready"
		}
	}
	switch {
	case state != want:
		w.t.Errorf("%s: the order is %s, want %s (%d proven, %d pending, %d ended)", event, state, want, proven, pending, ended)
	case (s.State == "valid") != (s.Certificate != nil):
		w.t.Errorf("%s: an order that is %s has the certificate %v", event, s.State, s.Certificate)
	case (s.State == "valid" || s.State == "invalid") != (s.Ended != nil):
		w.t.Errorf("%s: an order that is %s ended at %v", event, s.State, s.Ended)
	case (s.State == "invalid") != (s.Error != nil):
		w.t.Errorf("%s: an order that is %s has the problem %v", event, s.State, s.Error)
	case s.State == "processing" && len(s.CSR) == 0:
		w.t.Errorf("%s: an order is processing without a certificate request", event)
	}
}

func TestAttempts(t *testing.T) {
	e := endpoint(t)
	o := newOrder(t, e, dns("a.corp.example")...)
	p := acmeorder.Position{}
	o = changed(t, o, acmeorder.StartChallenge(o, p, e.Spec().Challenges.Attempts, now))
	c := &o.Status.Authorizations[0].Challenges[0]
	if c.State != "processing" || c.Deadline.Sub(now) != 75*time.Second {
		t.Fatalf("started: %+v", c)
	}
	if due, _ := acmeorder.DueChallenges(o, now); len(due) != 1 || due[0] != p {
		t.Fatalf("due at once: %v", due)
	}
	if acmeorder.StartChallenge(o, p, e.Spec().Challenges.Attempts, now) != nil {
		t.Error("it was started twice")
	}
	failed := acmeorder.Attempt{Problem: rfc8555.NewProblem(400, "connection", "refused")}
	at := now
	for i := range 4 {
		o = changed(t, o, acmeorder.RecordAttempt(o, p, failed, e.Spec(), at))
		due, next := acmeorder.DueChallenges(o, at)
		if len(due) != 0 || next.Sub(at) != 5*time.Second {
			t.Fatalf("after attempt %d: due %v, next in %v", i+1, due, next.Sub(at))
		}
		at = next
	}
	ours := acmeorder.Attempt{Problem: rfc8555.NewProblem(500, "serverInternal", "no socket"), Ours: true}
	o = changed(t, o, acmeorder.RecordAttempt(o, p, ours, e.Spec(), at))
	if got := o.Status.Authorizations[0].Challenges[0]; got.State != "processing" || got.Attempts != 4 {
		t.Fatalf("a fault of the server counts: %+v", got)
	}
	o = changed(t, o, acmeorder.RecordAttempt(o, p, failed, e.Spec(), at))
	if got := acmeorder.OrderState(o, at); got != "invalid" {
		t.Fatalf("after the last attempt the order is %s", got)
	}
	assertProblem(t, acmeorder.Problem(o, at), "connection", `the authorization for "a.corp.example" has failed: refused`)
	if shown := acmeorder.ShownChallenges(&o.Status.Authorizations[0]); !slices.Equal(shown, []int{0}) {
		t.Errorf("shown: %v", shown)
	}
}

func TestFinalFailure(t *testing.T) {
	e := endpoint(t)
	o := newOrder(t, e, dns("a.corp.example", "b.corp.example")...)
	p := acmeorder.Position{Authorization: 1, Challenge: 2}
	o = changed(t, o, acmeorder.StartChallenge(o, p, e.Spec().Challenges.Attempts, now))
	o = changed(t, o, acmeorder.RecordAttempt(o, p, acmeorder.Attempt{Problem: rfc8555.NewProblem(403, "incorrectResponse", "another"), Final: true}, e.Spec(), now))
	problem := acmeorder.Problem(o, now)
	assertProblem(t, problem, "incorrectResponse", "another")
	if len(problem.Subproblems) != 1 || problem.Subproblems[0].Identifier.Value != "b.corp.example" {
		t.Errorf("subproblems: %v", problem.Subproblems)
	}
}

func TestShownChallenges(t *testing.T) {
	e := endpoint(t)
	o := newOrder(t, e, dns("a.corp.example")...)
	if got := acmeorder.ShownChallenges(&o.Status.Authorizations[0]); len(got) != 3 {
		t.Errorf("pending: %v", got)
	}
	p := acmeorder.Position{Challenge: 1}
	o = changed(t, o, acmeorder.StartChallenge(o, p, e.Spec().Challenges.Attempts, now))
	o = changed(t, o, acmeorder.RecordAttempt(o, p, acmeorder.Attempt{}, e.Spec(), now))
	if got := acmeorder.ShownChallenges(&o.Status.Authorizations[0]); !slices.Equal(got, []int{1}) {
		t.Errorf("valid: %v", got)
	}
}

func TestWaiting(t *testing.T) {
	o := finalized(t, endpoint(t), newKey(t), dns("a.corp.example")...)
	for _, tc := range []struct{ after, want time.Duration }{
		{0, 2 * time.Second}, {10 * time.Second, 5 * time.Second}, {time.Minute, 15 * time.Second}, {10 * time.Minute, time.Minute}, {100 * time.Hour, time.Minute},
	} {
		if got := acmeorder.RetryAfter(o, now.Add(tc.after)); got != tc.want {
			t.Errorf("after %v: %v, want %v", tc.after, got, tc.want)
		}
	}
	late := now.Add(168*time.Hour + time.Minute)
	assertProblem(t, acmeorder.Problem(o, late), "unauthorized", "it was not approved within 7d")
	o = changed(t, o, acmeorder.Expire(o, late))
	assertProblem(t, acmeorder.Problem(o, late), "unauthorized", "it was not approved within 7d")
}

func TestEndOfAccount(t *testing.T) {
	e := endpoint(t)
	ended := rfc8555.NewProblem(403, "unauthorized", "account revoked")
	ready := proven(t, e, newOrder(t, e, dns("a.corp.example")...))
	o := changed(t, ready, acmeorder.Cancel(ready, ended, now))
	if a := &o.Status.Authorizations[0]; a.State != "revoked" {
		t.Errorf("the authorization is %s", a.State)
	}
	if acmeorder.Cancel(finalized(t, e, newKey(t), dns("a.corp.example")...), ended, now) != nil {
		t.Error("an order that is processing was ended")
	}
}

func TestDeactivateProof(t *testing.T) {
	e := endpoint(t)
	o := proven(t, e, newOrder(t, e, dns("a.corp.example", "b.corp.example")...))
	of := o.Status.Authorizations[0]
	o = changed(t, o, acmeorder.DeactivateProof(o, &of, now))
	if got := []string{o.Status.Authorizations[0].State, o.Status.Authorizations[1].State, acmeorder.OrderState(o, now)}; !slices.Equal(got, []string{"deactivated", "valid", "invalid"}) {
		t.Errorf("%v", got)
	}
	if acmeorder.DeactivateProof(newOrder(t, e, dns("b.corp.example")...), &of, now) != nil {
		t.Error("an authorization without a proof was deactivated")
	}
}
