package orders

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/policy/order"
)

// A controller that is killed at any write, before or after it is made, and is
// started again without a memory, still ends with a certificate. The CA gets at
// most one order more.
func TestKilledAtAnyWrite(t *testing.T) {
	for _, before := range []bool{true, false} {
		kills := 0
		for at := 1; ; at++ {
			w := newWorld(t, acmetest.Options{})
			key := newKey(t)
			w.newOrder(t, "web", key, nil, "a.example.com", "b.example.com")
			writes, killed := 0, ""
			w.fail = func(what string, now bool) bool {
				if now {
					writes++
				}
				if writes != at || now != before || killed != "" || strings.Contains(what, "update *v1.Challenge") {
					return false
				}
				killed = what
				return true
			}
			for range 100 {
				wait := w.step(t, "web")
				if killed != "" {
					w.restart()
					break
				}
				if wait < 0 || isDone(w.order(t, "web")) && len(w.challenges(t)) == 0 {
					break
				}
				w.clock.SetTime(w.clock.Now().Add(max(wait, 0)))
			}
			w.issued(t, w.settle(t, "web"), key)
			w.idle(t, "web")
			if orders := w.ca.Count(acmetest.NewOrder); orders > 2 || orders > 1 && (!before || killed != "update *v1.Order") || w.ca.Count(acmetest.Finalize) != 1 || len(w.challenges(t)) > 0 {
				t.Errorf("write %d (%s, before: %v): %d orders, finalized %d times, %d Challenges left",
					at, killed, before, orders, w.ca.Count(acmetest.Finalize), len(w.challenges(t)))
			}
			if killed != "" {
				kills++
			} else if at > writes {
				break
			}
		}
		if kills < 7 {
			t.Errorf("killed only %d times", kills)
		}
	}
}

// A write that fails does not make the same process order again.
func TestFailedWrites(t *testing.T) {
	for _, before := range []bool{true, false} {
		w := newWorld(t, acmetest.Options{})
		key := newKey(t)
		w.newOrder(t, "web", key, nil, "a.example.com")
		turn := 0
		w.fail = func(what string, now bool) bool {
			if now == before && what != "update *v1.Challenge" {
				turn++
			}
			return now == before && what != "update *v1.Challenge" && turn%3 != 0
		}
		w.issued(t, w.settle(t, "web"), key)
		if w.ca.Count(acmetest.NewOrder) != 1 || w.ca.Count(acmetest.Finalize) != 1 {
			t.Errorf("%d orders, finalized %d times", w.ca.Count(acmetest.NewOrder), w.ca.Count(acmetest.Finalize))
		}
	}
}

// Another client that writes to the Order at the same time costs no order.
func TestConflicts(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	busy, number := false, 0
	w.fail = func(what string, before bool) bool {
		if number++; before && what == "update *v1.Order" && !busy && number < 40 {
			busy = true
			o := w.order(t, "web")
			metav1.SetMetaDataLabel(&o.ObjectMeta, "changed", fmt.Sprint(number))
			w.must(t, w.api.Update(t.Context(), o))
		} else if before {
			busy = false
		}
		return false
	}
	w.issued(t, w.settle(t, "web"), key)
	if w.ca.Count(acmetest.NewOrder) != 1 {
		t.Errorf("%d orders", w.ca.Count(acmetest.NewOrder))
	}
}

// staleReader shows an API as it was.
type staleReader struct {
	client.Reader
	order *acmev1.Order
}

func (s staleReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if into, ok := o.(*acmev1.Order); ok && s.order != nil {
		s.order.DeepCopyInto(into)
		return nil
	}
	return s.Reader.Get(ctx, key, o, opts...)
}

// A new process whose cache is old does not order again.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	old := w.order(t, "web")
	w.until(t, "web", "is ordered", func(o *acmev1.Order) bool { return o.Status.URL != "" })
	w.restart()
	w.cache = staleReader{w.api, old}
	w.issued(t, w.settle(t, "web"), key)
	if w.ca.Count(acmetest.NewOrder) != 1 {
		t.Errorf("%d orders", w.ca.Count(acmetest.NewOrder))
	}
}

// If another process has ordered at the same time, its order counts.
func TestOrderedTwice(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	var theirs string
	w.fail = func(what string, before bool) bool {
		if before && what == "update *v1.Order" && theirs == "" {
			said, err := w.acme.NewOrder(t.Context(), order.NewOrder(w.order(t, "web").Spec, w.clock.Now()))
			w.must(t, err)
			theirs = said.URL
			o := w.order(t, "web")
			order.Observe(&o.Status, said)
			w.must(t, w.api.Status().Update(t.Context(), o))
		}
		return false
	}
	o := w.settle(t, "web")
	w.issued(t, o, key)
	if o.Status.URL != theirs || w.ca.Count(acmetest.NewOrder) != 2 {
		t.Errorf("%d orders, %s instead of %s", w.ca.Count(acmetest.NewOrder), o.Status.URL, theirs)
	}
}

// An order that expires ends the Order, without asking the CA again.
func TestExpires(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	w.unsolved = true
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	w.idle(t, "web")
	asked := w.ca.Count(acmetest.Order)
	w.clock.SetTime(w.clock.Now().Add(7*24*time.Hour + time.Minute))
	o := w.settle(t, "web")
	if o.Status.State != acmev1.Expired || !strings.Contains(o.Status.Reason, "expired") || w.ca.Count(acmetest.Order) != asked {
		t.Errorf("%+v", o.Status)
	}
}

// An Order that does not change for a day ends, with the last obstacle.
func TestStale(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	w.unsolved = true
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	w.idle(t, "web")
	if wait := w.step(t, "web"); wait < 20*time.Hour || wait > 25*time.Hour {
		t.Errorf("it is looked at after %v", wait)
	}
	w.clock.SetTime(w.clock.Now().Add(25 * time.Hour))
	o := w.settle(t, "web")
	if o.Status.State != acmev1.Errored || !strings.Contains(o.Status.Reason, "Last obstacle: Waiting for the validation of a.example.com by HTTP-01") {
		t.Errorf("%+v", o.Status)
	}
}

// An Order without its issuer says so, and goes on when it is back.
func TestIssuerDeleted(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.unsolved = true
	w.newOrder(t, "web", key, nil, "a.example.com")
	w.idle(t, "web")
	issuer := issuerWith(solverHTTP())
	w.must(t, w.api.Delete(t.Context(), issuer.DeepCopy()))
	o := w.idle(t, "web")
	if !strings.HasPrefix(o.Status.Reason, `error reading (cluster)issuer "le": `) || o.Status.State != acmev1.Pending {
		t.Errorf("%+v", o.Status)
	}
	w.must(t, w.api.Create(t.Context(), issuer))
	w.unsolved = false
	w.issued(t, w.settle(t, "web"), key)
}

// An Order without a solver says so, is not a failure, and goes on once there is
// one.
func TestSolverAddedLater(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = nil })
	w.newOrder(t, "web", key, nil, "a.example.com")
	o := w.idle(t, "web")
	if o.Status.State != acmev1.Pending || !strings.Contains(o.Status.Reason, "no configured challenge solvers can be used for this challenge") {
		t.Errorf("%+v", o.Status)
	}
	const text = "Warning Solver Failed to determine a valid solver configuration for the set of domains on the Order: no configured challenge solvers can be used for this challenge"
	if told := w.told(); !slices.Contains(told, text) {
		t.Errorf("%q", told)
	}
	w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = []acmev1.ACMEChallengeSolver{solverDNS()} })
	w.issued(t, w.settle(t, "web"), key)
}

// Another solver replaces the Challenges that nobody works on, and no others.
func TestSolverChanged(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		w := newWorld(t, acmetest.Options{})
		w.unsolved = true
		key := newKey(t)
		w.newOrder(t, "web", key, nil, "a.example.com")
		w.idle(t, "web")
		before := w.challenges(t)[0]
		if accepted {
			before.Status.State = acmev1.Processing
			w.must(t, w.api.Status().Update(t.Context(), &before))
		}
		w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = []acmev1.ACMEChallengeSolver{solverDNS()} })
		w.idle(t, "web")
		if now := w.challenges(t); len(now) != 1 || (now[0].Name == before.Name) != accepted {
			t.Errorf("accepted: %v: %d Challenges, %s after %s", accepted, len(now), now[0].Name, before.Name)
		}
		w.unsolved = false
		w.issued(t, w.settle(t, "web"), key)
	}
}

// Without solvers an Order that is validated already still gets its certificate.
func TestSolverRemovedAfterValidation(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	key := newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	w.until(t, "web", "has a valid Challenge", func(*acmev1.Order) bool {
		all := w.challenges(t)
		return len(all) > 0 && all[0].Status.State == acmev1.Valid
	})
	w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = nil })
	w.issued(t, w.settle(t, "web"), key)
}

func TestPreferredChain(t *testing.T) {
	const lostAt = 2 // the second download is that of the alternate chain
	tests := []struct {
		reason, prefers, want string
		hook                  func(acmetest.Call) *acmetest.Reply
	}{
		{"none", "", acmetest.RootName, nil},
		{"the default", acmetest.RootName, acmetest.RootName, nil},
		{"the alternate", acmetest.AlternateRootName, acmetest.AlternateRootName, nil},
		{"an unknown one", "ISRG Root X99", acmetest.RootName, nil},
		{"another case", strings.ToUpper(acmetest.AlternateRootName), acmetest.RootName, nil},
		{"the alternate, which fails at first", acmetest.AlternateRootName, acmetest.AlternateRootName, reply(acmetest.Certificate, &acmetest.Reply{Status: 500}, lostAt)},
	}
	for _, tc := range tests {
		w := newWorld(t, acmetest.Options{Hook: tc.hook})
		w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.PreferredChain = tc.prefers })
		key := newKey(t)
		w.newOrder(t, "web", key, nil, "a.example.com")
		chain := w.issued(t, w.settle(t, "web"), key)
		if got := chain[len(chain)-1].Issuer.CommonName; got != tc.want {
			t.Errorf("%s: %s", tc.reason, got)
		}
	}
}

// Half of the nonces are refused; nobody notices.
func TestBadNonces(t *testing.T) {
	turn := 0
	w := newWorld(t, acmetest.Options{})
	w.ca.Change(func(o *acmetest.Options) {
		o.Hook = func(c acmetest.Call) *acmetest.Reply {
			if turn++; turn%2 == 0 && c.Method == "POST" {
				return acmetest.Refused(400, "badNonce", "again")
			}
			return nil
		}
	})
	began, key := w.clock.Now(), newKey(t)
	w.newOrder(t, "web", key, nil, "a.example.com")
	w.issued(t, w.settle(t, "web"), key)
	if took := w.clock.Now().Sub(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// Many Orders at once against a limit of the CA all end valid. (That namespaces
// take turns is tested with the queue: turns.TestTurnsLastOverWaits.)
func TestManyAgainstALimit(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	allowed, minute := 0, w.clock.Now()
	w.ca.Change(func(o *acmetest.Options) {
		o.Hook = func(c acmetest.Call) *acmetest.Reply {
			if c.Kind != acmetest.NewOrder {
				return nil
			}
			if w.clock.Now().Sub(minute) >= time.Minute {
				allowed, minute = 0, w.clock.Now()
			}
			if allowed++; allowed > 5 {
				return acmetest.RateLimited("60", "5 a minute")
			}
			return nil
		}
	})
	key := newKey(t)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("web-%d", i))
		w.newOrder(t, names[i], key, nil, fmt.Sprintf("n%d.example.com", i))
	}
	for range 60 {
		for _, name := range names {
			for range 20 {
				if wait := w.step(t, name); wait != 0 {
					break
				}
			}
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	}
	for _, name := range names {
		w.issued(t, w.order(t, name), key)
	}
}

// An issuer that refuses the account is suspected, and the Order waits.
func TestAccountRefused(t *testing.T) {
	w := newWorld(t, acmetest.Options{Hook: reply(acmetest.NewOrder, acmetest.Refused(400, "accountDoesNotExist", "who are you"))})
	suspected := 0
	w.Suspect = func(cmv1.GenericIssuer) { suspected++ }
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	o := w.idle(t, "web")
	if suspected != 1 || o.Status.State != "" || !strings.Contains(o.Status.Reason, "check the account of the issuer") {
		t.Errorf("suspected %d times: %+v", suspected, o.Status)
	}
	issuer := &cmv1.ClusterIssuer{}
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Name: "le"}, issuer))
	issuer.Status.Conditions = []cmv1.IssuerCondition{{Type: cmv1.IssuerConditionReady, Status: "True"}}
	w.must(t, w.api.Status().Update(t.Context(), issuer))
	asked := w.ca.Count(acmetest.NewOrder)
	if w.step(t, "web"); w.ca.Count(acmetest.NewOrder) != asked+1 {
		t.Error("a change of the issuer does not end the wait")
	}
	if o := w.settle(t, "web"); o.Status.State != acmev1.Errored || !strings.HasPrefix(o.Status.Reason, "Failed to create Order: 400 ") {
		t.Errorf("%+v", o.Status)
	}
}

// A CA cannot make us validate names that nobody ordered.
func TestForeignAuthorization(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	w.ca.Change(func(o *acmetest.Options) {
		o.Hook = reply(acmetest.Authorization, &acmetest.Reply{Status: 200, Header: map[string][]string{"Content-Type": {"application/json"}},
			Body: `{"status":"pending","identifier":{"type":"dns","value":"victim.example.org"},"challenges":[]}`})
	})
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	if o := w.settle(t, "web"); o.Status.State != acmev1.Errored || !strings.Contains(o.Status.Reason, `the CA wants to validate "victim.example.org", which was not ordered`) {
		t.Errorf("%+v", o.Status)
	}
}

// After a restart, the CA's answers change nothing in the status, so that no
// event of the Order follows. The Challenges are made all the same, at once.
func TestRestartDoesNotWait(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	w.newOrder(t, "web", newKey(t), nil, "a.example.com")
	w.until(t, "web", "its authorizations are stored", func(o *acmev1.Order) bool {
		return len(o.Status.Authorizations) == 1 && o.Status.Authorizations[0].Identifier != ""
	})
	w.restart()
	begin := w.clock.Now()
	for len(w.challenges(t)) == 0 {
		wait := w.step(t, "web")
		if w.clock.SetTime(w.clock.Now().Add(max(wait, 0))); w.clock.Since(begin) > time.Second {
			t.Fatalf("no Challenge %v after the restart", w.clock.Since(begin))
		}
	}
}
