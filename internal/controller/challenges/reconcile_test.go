package challenges

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/worker"
)

// The Events are those that cert-manager's users know.
func TestSolved(t *testing.T) {
	for _, tc := range []struct {
		kind   string
		change func(*acmev1.Challenge)
	}{{"DNS-01", func(*acmev1.Challenge) {}}, {"HTTP-01", http01}} {
		w := newWorld(t)
		ch := w.create("shop", "a", tc.change)
		w.run(time.Minute)
		w.ended(ch, acmev1.Valid)
		got := w.get(ch)
		if got.Status.Reason != "Successfully authorized domain" || got.Status.PresentedAt == nil {
			t.Errorf("%s: %+v", tc.kind, got.Status)
		}
		if diff := cmp.Diff([]string{
			"Normal Started Challenge scheduled for processing",
			"Normal Presented Presented challenge using " + tc.kind + " challenge mechanism",
			`Normal DomainVerified Domain "a.example.com" verified with "` + tc.kind + `" validation`,
		}, w.events); diff != "" {
			t.Errorf("%s: events (-want +got)\n%s", tc.kind, diff)
		}
		if w.ca.accepts != 1 || len(w.queue) != 0 || len(w.controller.slots.busy) != 0 {
			t.Errorf("%s: %d accepts, queue %v, slots %v", tc.kind, w.ca.accepts, w.queue, w.controller.slots.busy)
		}
	}
}

func TestInvalid(t *testing.T) {
	w := newWorld(t)
	w.ca.problem = &rfc8555.Problem{Type: rfc8555.Namespace + "dns", Detail: "NXDOMAIN", Status: 400}
	ch := w.create("shop", "a")
	w.run(time.Minute)
	w.ended(ch, acmev1.Invalid)
	const problem = "acme: authorization error for a.example.com: 400 urn:ietf:params:acme:error:dns: NXDOMAIN"
	if got := w.get(ch).Status.Reason; got != "Error accepting authorization: "+problem {
		t.Errorf("reason %q", got)
	}
	if want := "Warning Failed Accepting challenge authorization failed: " + problem; !slices.Contains(w.events, want) {
		t.Errorf("no %q in %q", want, w.events)
	}
}

// What other programs have begun goes on: older finalizers are replaced, and
// honoured.
func TestOlderFinalizer(t *testing.T) {
	older := func(ch *acmev1.Challenge) { ch.Finalizers = []string{acmev1.ACMELegacyFinalizer, "x.example/y"} }
	w := newWorld(t)
	w.net.visible = func(*acmev1.Challenge) error { return errors.New("not yet") }
	ch := w.create("shop", "a", older)
	w.run(time.Second)
	if got := w.get(ch).Finalizers; !slices.Equal(got, []string{"x.example/y", acmev1.ACMEDomainQualifiedFinalizer}) {
		t.Errorf("finalizers %q", got)
	}
	w.delete(ch)
	w.run(time.Second)
	if got := w.get(ch); !slices.Equal(got.Finalizers, []string{"x.example/y"}) || got.Status.Presented || got.Status.Processing {
		t.Errorf("after its deletion: %q, %+v", got.Finalizers, got.Status)
	}
	w.clean()
	w = newWorld(t)
	ch = w.create("shop", "b", older)
	w.delete(ch)
	w.run(time.Second)
	if got := w.get(ch).Finalizers; !slices.Equal(got, []string{"x.example/y"}) || w.net.calls["CleanUp"] != 1 {
		t.Errorf("finalizers %q after %d clean-ups", got, w.net.calls["CleanUp"])
	}
}

// A Challenge can be deleted at any time.
func TestDeleted(t *testing.T) {
	for effects := range 12 {
		w := newWorld(t)
		ch := w.create("shop", "a")
		done := 0
		w.fault = func(_ string, after bool) error {
			if after {
				if done++; done == effects {
					w.delete(ch)
				}
			}
			return nil
		}
		w.run(time.Minute)
		w.delete(ch)
		w.run(time.Minute)
		if got := w.get(ch); got != nil {
			t.Errorf("deleted after %d effects: still there: %+v", effects, got)
		}
		w.clean()
	}
}

// errKilled ends a process: nothing that it does afterwards has an effect.
var errKilled = errors.New("killed")

// A process can be killed before and after each of its effects on the world.
// The next one ends what it has begun.
func TestKilled(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for effect := 1; ; effect++ {
				if !surviveKill(t, effect, after, deletes) {
					if effect < 7 {
						t.Errorf("there were only %d effects", effect-1)
					}
					break
				}
			}
		}
	}
}

// surviveKill reports whether there was a process to be killed.
func surviveKill(t *testing.T, effect int, after, deletes bool) bool {
	t.Helper()
	w := newWorld(t)
	ch := w.create("shop", "a")
	count, name := 0, ""
	w.fault = func(what string, done bool) error {
		if done == after {
			if count++; count == effect {
				name = what
				w.kill()
			}
		}
		if w.ctx.Err() != nil {
			return errKilled
		}
		return nil
	}
	w.run(time.Minute)
	if name == "" {
		return false
	}
	w.fault = nil
	if deletes {
		w.delete(ch)
	}
	w.start()
	w.run(10 * time.Minute)
	if deletes {
		if got := w.get(ch); got != nil {
			t.Errorf("killed at effect %d, %s (after: %v): still there: %+v", effect, name, after, got)
		}
		w.clean()
		return true
	}
	w.ended(ch, acmev1.Valid)
	if t.Failed() {
		t.Fatalf("killed at effect %d, %s (after: %v)", effect, name, after)
	}
	return true
}

// A write that fails, with or without having been stored, is no reason to stop.
func TestWriteFails(t *testing.T) {
	for _, after := range []bool{false, true} {
		for effect := 1; effect < 10; effect++ {
			w := newWorld(t)
			ch := w.create("shop", "a")
			count := 0
			w.fault = func(_ string, done bool) error {
				if done == after {
					if count++; count == effect {
						return errors.New("unreachable")
					}
				}
				return nil
			}
			w.run(10 * time.Minute)
			w.ended(ch, acmev1.Valid)
		}
	}
}

// A cache that is behind leads to nothing that is not cleaned up.
func TestStaleCache(t *testing.T) {
	w := newWorld(t)
	ch := w.create("shop", "a")
	var history []*acmev1.Challenge
	w.fault = func(what string, done bool) error {
		if done && strings.HasPrefix(what, "update") {
			history = append(history, w.get(ch))
		}
		return nil
	}
	w.run(time.Minute)
	w.ended(ch, acmev1.Valid)
	accepts, presents := w.ca.accepts, w.net.calls["Present"]
	for i, old := range slices.Concat(history, history) {
		if i >= len(history) {
			w.start() // without what the process knows
		}
		w.controller.objects = stale{Reader: w.api, challenge: old}
		for range 3 {
			if _, err := w.controller.Reconcile(w.ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(ch)}); err != nil {
				t.Errorf("version %d: %v", i, err)
			}
		}
		w.ended(ch, acmev1.Valid)
	}
	if w.ca.accepts != accepts || w.net.calls["Present"] != presents {
		t.Errorf("%d accepts and %d presents more", w.ca.accepts-accepts, w.net.calls["Present"]-presents)
	}
}

// stale returns an old version of a Challenge.
type stale struct {
	client.Reader
	challenge *acmev1.Challenge
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
	if ch, ok := object.(*acmev1.Challenge); ok {
		s.challenge.DeepCopyInto(ch)
		return nil
	}
	return s.Reader.Get(ctx, key, object, o...)
}

// A name that points elsewhere in the meantime leaves no record at the old
// place.
func TestMoved(t *testing.T) {
	w := newWorld(t)
	place := "old"
	w.net.where = func(*acmev1.Challenge) string { return place }
	w.net.visible = func(*acmev1.Challenge) error {
		if place == "old" {
			return errors.New("not yet")
		}
		return nil
	}
	ch := w.create("shop", "a")
	w.run(10 * time.Second)
	if !cmp.Equal(w.net.answers, map[string]string{"old key-a": "key-a"}) {
		t.Fatalf("presented: %v", w.net.answers)
	}
	place = "new"
	w.net.visible = func(*acmev1.Challenge) error {
		if w.net.answers["new key-a"] == "" {
			return errors.New("not at the new place")
		}
		return nil
	}
	w.run(5 * time.Minute)
	w.ended(ch, acmev1.Valid)
}

// Trouble on the way to the CA, and limits of the CA, end nothing.
func TestCAErrors(t *testing.T) {
	limited := &rfc8555.Problem{Type: rfc8555.Namespace + "rateLimited", Status: 429, Detail: "slow down"}
	for _, tc := range []struct {
		reason string
		err    error
		says   string
		takes  time.Duration
	}{
		{"network", &netError{}, "i/o timeout", time.Minute},
		{"deadline", context.DeadlineExceeded, "context deadline exceeded", time.Minute},
		{"the CA is broken", &rfc8555.Problem{Type: rfc8555.Namespace + "serverInternal", Status: 500, Detail: "oops"}, "oops", time.Minute},
		{"rate limit", limited, "because the CA limits requests: slow down", 2 * time.Hour},
		{"account", &rfc8555.Problem{Type: rfc8555.Namespace + "unauthorized", Status: 403, Detail: "no"}, "the account of the issuer needs attention", time.Minute},
	} {
		for _, call := range []string{"authorization", "accept"} {
			w := newWorld(t)
			failing := true
			w.ca.fails = func(what string) error {
				if failing && what == call {
					return tc.err
				}
				return nil
			}
			ch := w.create("shop", "a")
			w.run(4 * time.Second)
			if got := w.get(ch).Status; !strings.Contains(got.Reason, tc.says) || (got.State != acmev1.Pending && got.State != "") {
				t.Errorf("%s, %s: %+v", tc.reason, call, got)
			}
			if len(w.controller.slots.busy) > 0 {
				t.Errorf("%s, %s: it keeps its slot", tc.reason, call)
			}
			if (w.suspects > 0) != (tc.reason == "account") {
				t.Errorf("%s, %s: the issuer is suspected %d times", tc.reason, call, w.suspects)
			}
			failing = false
			w.run(tc.takes)
			w.ended(ch, acmev1.Valid)
		}
	}
}

type netError struct{}

func (*netError) Error() string { return "dial tcp: i/o timeout" }

// The answer to Accept can be lost: the CA is not asked a second time for what
// it does already.
func TestAcceptLost(t *testing.T) {
	w := newWorld(t)
	lost := false
	w.fault = func(what string, done bool) error {
		if what == "accept" && done && !lost {
			lost = true
			return &netError{}
		}
		return nil
	}
	ch := w.create("shop", "a")
	w.run(time.Minute)
	w.ended(ch, acmev1.Valid)
	if w.ca.accepts != 1 {
		t.Errorf("accepted %d times", w.ca.accepts)
	}
}

func TestPresentError(t *testing.T) {
	w := newWorld(t)
	w.net.present = errors.New("secret cert-manager/tsig not found")
	ch := w.create("shop", "a")
	w.run(time.Minute)
	if got := w.get(ch).Status; got.Reason != "secret cert-manager/tsig not found" || got.Presented || got.State != acmev1.Pending {
		t.Errorf("%+v", got)
	}
	count := 0
	for _, e := range w.events {
		if e == "Warning PresentError Error presenting challenge: secret cert-manager/tsig not found" {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d events: %q", count, w.events)
	}
	w.run(20 * time.Minute) // the next attempt is far away
	w.net.present = nil
	queue := queue{w: w}
	w.controller.secretChanged(queue, types.NamespacedName{Namespace: "shop", Name: "tsig"})
	w.run(time.Second)
	if got := w.get(ch).Status; got.Presented {
		t.Error("the Secret of another namespace has woken it")
	}
	w.controller.secretChanged(queue, types.NamespacedName{Namespace: "cert-manager", Name: "tsig"})
	w.run(5 * time.Second)
	w.ended(ch, acmev1.Valid)
}

func TestIssuerNotReady(t *testing.T) {
	w := newWorld(t)
	ready := w.clients
	w.clients = func(context.Context, cmv1.GenericIssuer) (Client, error) {
		return nil, errors.New("the issuer has no account yet")
	}
	ch := w.create("shop", "a")
	w.run(20 * time.Minute)
	if got := w.get(ch).Status; got.Reason != "Waiting for the issuer: the issuer has no account yet" || w.net.calls["Present"] > 0 {
		t.Errorf("%+v", got)
	}
	w.clients = ready
	w.controller.wake(queue{w: w}, func(e *entry) bool { return e.issuer == issuerKey{Name: "le"} })
	w.run(5 * time.Second)
	w.ended(ch, acmev1.Valid)
}

func TestWaitInsteadOfSelfCheck(t *testing.T) {
	unchecked := func(wait time.Duration) func(*acmev1.Challenge) {
		return func(ch *acmev1.Challenge) {
			ch.Spec.Solver.WaitInsteadOfSelfCheck = &metav1.Duration{Duration: wait}
		}
	}
	w := newWorld(t)
	w.net.visible = func(*acmev1.Challenge) error { t.Error("a self check"); return nil }
	now := w.create("shop", "a", unchecked(0))
	w.run(5 * time.Second)
	w.ended(now, acmev1.Valid)

	later := w.create("shop", "b", unchecked(30*time.Second))
	w.run(20 * time.Second)
	if got := w.get(later).Status; got.Reason != "Waiting 30s before accepting DNS-01 challenge without self-check" || got.PresentedAt == nil || w.ca.accepts != 1 {
		t.Errorf("%+v", got)
	}
	if len(w.controller.slots.busy) > 0 {
		t.Error("a Challenge that waits has a slot")
	}
	w.start() // the wait does not begin again
	w.run(9 * time.Second)
	if w.ca.accepts != 1 {
		t.Error("accepted too early")
	}
	w.run(4 * time.Second)
	w.ended(later, acmev1.Valid)
}

func TestSelfCheckDeadline(t *testing.T) {
	w := newWorld(t)
	w.net.visible = func(*acmev1.Challenge) error { return errors.New("wrong") }
	ch := w.create("shop", "a")
	writes := 0
	w.fault = func(what string, done bool) error {
		if done && what == "update status" {
			writes++
		}
		return nil
	}
	w.run(24*time.Hour - time.Minute)
	if got := w.get(ch).Status; got.State != acmev1.Pending || !strings.HasPrefix(got.Reason, "Waiting for DNS-01 challenge propagation: wrong; no self check has succeeded since ") {
		t.Errorf("%+v", got)
	}
	if writes > 10 {
		t.Errorf("the status was written %d times", writes)
	}
	w.run(2 * time.Minute)
	w.ended(ch, acmev1.Errored)
}

// 1000 Challenges, 200 of which can never be solved: the others are.
func TestStarvation(t *testing.T) {
	w := newWorld(t)
	w.net.visible = func(ch *acmev1.Challenge) error {
		if strings.HasPrefix(ch.Name, "bad") {
			return errors.New("not there")
		}
		return nil
	}
	for i := range 200 {
		w.create("shop", fmt.Sprintf("bad-%d", i))
	}
	for i := range 800 {
		w.create(fmt.Sprintf("team-%d", i%4), fmt.Sprintf("good-%d", i))
	}
	most := 0
	for end := w.clock.Now().Add(2 * time.Minute); w.step(end); {
		most = max(most, len(w.controller.slots.busy))
	}
	var all acmev1.ChallengeList
	if err := w.api.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	valid := 0
	for _, ch := range all.Items {
		if ch.Status.State == acmev1.Valid {
			valid++
		}
	}
	if valid != 800 || most > 60 || len(w.controller.slots.busy) > 0 {
		t.Errorf("%d are valid, %d slots were used, %d still are", valid, most, len(w.controller.slots.busy))
	}
}

// 100 Challenges whose solver takes a second for each call, and wants a minute
// of propagation, with 5 workers: what one worker does here in 200 ms.
func TestSlowSolver(t *testing.T) {
	w := newWorld(t)
	w.took, w.net.delay = 200*time.Millisecond, time.Minute
	var all []*acmev1.Challenge
	for i := range 100 {
		all = append(all, w.create("shop", fmt.Sprint(i)))
	}
	w.run(2*time.Minute + 5*time.Second)
	for _, ch := range all {
		if got := w.get(ch).Status; got.State != acmev1.Valid {
			t.Errorf("%s: %+v", ch.Name, got)
		}
	}
}

// A webhook that may replace other records has one Challenge for a name at a
// time, also after a restart; one that cannot be solved does not keep others
// away forever.
func TestOnePlace(t *testing.T) {
	webhook := func(ch *acmev1.Challenge) {
		ch.Spec.Solver.DNS01 = &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "x.example", SolverName: "s"}}
		ch.Spec.DNSName = "same.example.com"
	}
	w := newWorld(t)
	w.net.visible = func(ch *acmev1.Challenge) error {
		if ch.Name == "bad" {
			return errors.New("not there")
		}
		return nil
	}
	w.net.delay = 10 * time.Second
	first := w.create("shop", "b", webhook)
	w.run(time.Second)
	second := w.create("shop", "a", webhook) // comes first after the restart
	w.run(5 * time.Second)
	w.start()
	w.run(5 * time.Minute)
	w.ended(first, acmev1.Valid)
	w.ended(second, acmev1.Valid)
	if w.net.most != 1 {
		t.Errorf("%d answers at the same time", w.net.most)
	}
	w.create("shop", "bad", webhook)
	w.run(time.Minute)
	third := w.create("shop", "c", webhook)
	w.run(10 * time.Minute)
	if got := w.get(third).Status; got.Processing {
		t.Errorf("%+v", got)
	}
	w.run(10 * time.Minute)
	if got := w.get(third).Status; got.State != acmev1.Valid {
		t.Errorf("%+v", got)
	}
}

func TestTwoOrdersForOneName(t *testing.T) {
	w := newWorld(t)
	same := func(ch *acmev1.Challenge) { ch.Spec.DNSName = "same.example.com" }
	a, b := w.create("shop", "a", same), w.create("team", "b", same)
	w.run(time.Minute)
	w.ended(a, acmev1.Valid)
	w.ended(b, acmev1.Valid)
	if w.net.most != 2 {
		t.Errorf("%d answers at the same time, want 2", w.net.most)
	}
}

// A clean-up that cannot succeed does not keep a namespace from going.
func TestCleanUpAbandoned(t *testing.T) {
	missing := fmt.Errorf("reading secret: %w", apierrors.NewNotFound(corev1.Resource("secrets"), "tsig"))
	for _, tc := range []struct {
		reason string
		clean  error
		namely func(*world)
		gone   time.Duration // after the deletion
	}{
		{"no credentials, the namespace stays", missing, func(*world) {}, 10 * time.Minute},
		{"broken provider, the namespace goes", errors.New("broken"), terminate, 10 * time.Minute},
		{"no credentials, the namespace goes", missing, terminate, 0},
	} {
		w := newWorld(t, &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "le"}})
		w.net.visible = func(*acmev1.Challenge) error { return errors.New("not yet") }
		ch := w.create("shop", "a", func(ch *acmev1.Challenge) { ch.Spec.IssuerRef.Kind = "Issuer" })
		w.run(time.Second)
		w.net.clean = tc.clean
		tc.namely(w)
		w.delete(ch)
		if tc.gone > 0 {
			w.run(tc.gone - 30*time.Second)
			got := w.get(ch)
			if got == nil || !strings.HasPrefix(got.Status.Reason, "Error cleaning up challenge: ") {
				t.Errorf("%s: %+v", tc.reason, got)
			}
		}
		w.run(time.Minute)
		if got := w.get(ch); got != nil {
			t.Errorf("%s: still there: %+v", tc.reason, got)
		}
		if last := w.events[len(w.events)-1]; !strings.HasPrefix(last, `Warning CleanUpAbandoned Cleaning up was given up, remove what is left: the TXT record "key-a" below a.example.com (_acme-challenge.a.example.com): `) {
			t.Errorf("%s: %q", tc.reason, last)
		}
	}
}

// terminate is what an API does to a namespace that is deleted.
func terminate(w *world) {
	shop := &corev1.Namespace{}
	if err := w.api.Get(w.Context(), types.NamespacedName{Name: "shop"}, shop); err != nil {
		w.Fatal(err)
	}
	shop.Status.Phase = corev1.NamespaceTerminating
	if err := w.api.Status().Update(w.Context(), shop); err != nil {
		w.Fatal(err)
	}
}

// A Challenge of the same name as one that is gone is another one.
func TestSameName(t *testing.T) {
	w := newWorld(t)
	w.net.visible = func(*acmev1.Challenge) error { return errors.New("not yet") }
	ch := w.create("shop", "a")
	w.run(5 * time.Minute)
	w.delete(ch)
	w.controller.objects = stale{Reader: w.api, challenge: w.get(ch)} // the deletion is not seen
	w.run(0)
	w.controller.objects = w.api
	w.net.visible = func(*acmev1.Challenge) error { return nil }
	again := w.create("shop", "a", func(ch *acmev1.Challenge) { ch.UID = "other" })
	w.run(5 * time.Second)
	w.ended(again, acmev1.Valid)
	if len(w.controller.memories.entries) != 1 {
		t.Errorf("memories: %v", w.controller.memories.entries)
	}
	w.delete(again)
	w.run(time.Second)
	if len(w.controller.memories.entries) != 0 || len(w.controller.slots.places) != 0 {
		t.Errorf("left: %v, %v", w.controller.memories.entries, w.controller.slots.places)
	}
}

func TestSettings(t *testing.T) {
	if err := DefaultChallengeSettings().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*ChallengeSettings){
		"acme.maxConcurrentChallenges: 0 must be from 1 to 10000": func(s *ChallengeSettings) { s.MaxConcurrentChallenges = 0 },
		"acme.checkPeriod: 1ms must be 0s, or at least 1s":        func(s *ChallengeSettings) { s.CheckPeriod.Duration = time.Millisecond },
		"acme.selfCheckDeadline: 0s must be at least 1m0s":        func(s *ChallengeSettings) { s.SelfCheckDeadline.Duration = 0 },
	} {
		s := DefaultChallengeSettings()
		change(&s)
		if err := s.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// queue is the queue of a world.
type queue struct {
	worker.Queue
	w *world
}

func (q queue) Add(item reconcile.Request) { q.w.add(item.NamespacedName, q.w.clock.Now()) }
