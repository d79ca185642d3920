package orders

import (
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/client/explain/explaintest"
	"github.com/certplane/certplane/internal/policy/order"
)

// explained returns what the explanation of an Order says is next.
func (w *world) explained(t *testing.T, name string) explain.OrderDecision {
	t.Helper()
	e, err := explain.Order(t.Context(), explaintest.Reader{Reader: w.api}, explain.Query{Namespace: "shop", Name: name, Now: w.clock.Now()})
	w.must(t, err)
	if e.Decision == nil {
		t.Fatalf("no decision: %+v", e)
	}
	return *e.Decision
}

// decided returns what a controller does next that has just read the order from
// the CA.
func (w *world) decided(t *testing.T, name string) explain.OrderDecision {
	t.Helper()
	w.restart()
	key := client.ObjectKey{Namespace: "shop", Name: name}
	for {
		p, err := w.begin(t.Context(), key)
		w.must(t, err)
		if p == nil {
			return explain.OrderDecision{Action: order.None}
		}
		step := order.Next(p.situation())
		if step.Action != order.Read || p.memory.Order != nil || p.now.Status.FinalizeURL == "" {
			d := explain.OrderDecision{Action: step.Action, Class: step.Class, Reason: step.Reason}
			for _, needs := range step.Create {
				d.Create = append(d.Create, needs.Challenge.Name)
			}
			for _, c := range step.Delete {
				d.Delete = append(d.Delete, c.Name)
			}
			return d
		}
		w.must(t, p.ask(t.Context(), order.Read))
		w.must(t, p.write(t.Context()))
	}
}

// status changes the status of the Order.
func (w *world) status(t *testing.T, change func(*acmev1.OrderStatus)) {
	t.Helper()
	o := w.order(t, "web")
	change(&o.Status)
	w.must(t, w.api.Status().Update(t.Context(), o))
}

// challengeStatus changes the status of the only Challenge.
func (w *world) challengeStatus(t *testing.T, state acmev1.State, reason string) {
	t.Helper()
	c := w.challenges(t)[0]
	c.Status.State, c.Status.Reason = state, reason
	w.must(t, w.api.Status().Update(t.Context(), &c))
}

// rows are the situations that a pass over an Order tells apart, in the order in
// which it does. The controller and the explanation must decide alike in each.
var rows = []struct {
	reason string
	option func(*acmetest.Options)
	// waits brings the Order to where it waits for its Challenge; without it, the
	// Order is new.
	waits bool
	then  func(*testing.T, *world)
	want  order.Action
	class order.Class
}{
	{
		reason: "there is no issuer", want: order.Await, class: order.WaitsIssuer,
		then: func(t *testing.T, w *world) { w.must(t, w.api.Delete(t.Context(), issuerWith())) },
	},
	{
		reason: "the issuer is of another type", want: order.Await, class: order.WaitsIssuer,
		then: func(t *testing.T, w *world) {
			issuer := issuerWith()
			w.must(t, w.api.Get(t.Context(), client.ObjectKeyFromObject(issuer), issuer))
			issuer.Spec.ACME = nil
			w.must(t, w.api.Update(t.Context(), issuer))
		},
	},
	{
		reason: "it has failed", waits: true, want: order.None,
		then: func(t *testing.T, w *world) {
			w.status(t, func(s *acmev1.OrderStatus) { s.State, s.Reason = acmev1.Errored, "no" })
		},
	},
	{reason: "the CA does not have it yet", want: order.Create},
	{
		reason: "its finalize URL is not known", waits: true, want: order.Read,
		then: func(t *testing.T, w *world) {
			w.status(t, func(s *acmev1.OrderStatus) { s.FinalizeURL = "" })
		},
	},
	{
		reason: "an authorization was not read yet", waits: true, want: order.ReadAuthorizations,
		then: func(t *testing.T, w *world) {
			w.status(t, func(s *acmev1.OrderStatus) {
				s.Authorizations[0] = acmev1.ACMEAuthorization{URL: s.Authorizations[0].URL}
			})
		},
	},
	{
		reason: "it is valid, and has no certificate yet", waits: true, want: order.Download,
		then: func(t *testing.T, w *world) {
			w.unsolved = false
			w.settle(t, "web")
			w.status(t, func(s *acmev1.OrderStatus) { s.Certificate = nil })
		},
	},
	{
		reason: "it has its certificate, and a Challenge is left", waits: true, want: order.None,
		then: func(t *testing.T, w *world) {
			w.status(t, func(s *acmev1.OrderStatus) { s.State, s.Certificate = acmev1.Valid, []byte("x") })
		},
	},
	{
		reason: "no solver fits", waits: true, want: order.Await, class: order.WaitsSolver,
		then: func(t *testing.T, w *world) {
			w.must(t, w.api.DeleteAllOf(t.Context(), &acmev1.Challenge{}, client.InNamespace("shop")))
			w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = nil })
		},
	},
	{
		reason: "a Challenge is missing", waits: true, want: order.Plan,
		then: func(t *testing.T, w *world) {
			w.must(t, w.api.DeleteAllOf(t.Context(), &acmev1.Challenge{}, client.InNamespace("shop")))
		},
	},
	{
		reason: "the issuer has another solver by now", waits: true, want: order.Plan,
		then: func(t *testing.T, w *world) {
			w.changeIssuer(t, func(a *acmev1.ACMEIssuer) { a.Solvers = []acmev1.ACMEChallengeSolver{solverDNS()} })
		},
	},
	{
		reason: "it is ready", waits: true, want: order.Finalize,
		then: func(t *testing.T, w *world) {
			w.ca.SetOrder(w.order(t, "web").Status.URL, rfc8555.StateReady, nil)
			w.challengeStatus(t, acmev1.Valid, "")
		},
	},
	{reason: "its Challenge is open", waits: true, want: order.Await, class: order.WaitsChallenges},
	{
		reason: "its Challenge has failed", waits: true, want: order.End,
		then: func(t *testing.T, w *world) { w.challengeStatus(t, acmev1.Invalid, "no such answer") },
	},
	{
		reason: "its Challenge has failed, but not at the CA", waits: true, want: order.End,
		then: func(t *testing.T, w *world) { w.challengeStatus(t, acmev1.Errored, "given up") },
	},
	{
		reason: "all Challenges are valid, and the CA is not ready", waits: true, want: order.Read, class: order.WaitsCA,
		then: func(t *testing.T, w *world) { w.challengeStatus(t, acmev1.Valid, "") },
	},
	{
		reason: "the CA issues", option: func(o *acmetest.Options) { o.Processing = 1000 }, waits: true, want: order.Read, class: order.WaitsCA,
		then: func(t *testing.T, w *world) {
			w.unsolved = false
			w.until(t, "web", "is finalized", func(o *acmev1.Order) bool { return o.Status.State == acmev1.Processing })
		},
	},
	{
		reason: "nothing has changed for a day", waits: true, want: order.End,
		then: func(_ *testing.T, w *world) { w.clock.SetTime(w.clock.Now().Add(25 * time.Hour)) },
	},
}

func TestExplainedAsDecided(t *testing.T) {
	for _, row := range rows {
		t.Run(row.reason, func(t *testing.T) {
			options := acmetest.Options{}
			if row.option != nil {
				row.option(&options)
			}
			w := newWorld(t, options)
			issuer := &cmv1.ClusterIssuer{}
			w.must(t, w.api.Get(t.Context(), client.ObjectKey{Name: "le"}, issuer))
			issuer.Status.ACME = &acmev1.ACMEIssuerStatus{URI: w.acme.Account()}
			w.must(t, w.api.Status().Update(t.Context(), issuer))
			w.unsolved = true
			w.newOrder(t, "web", newKey(t), nil, "a.example.com")
			if row.waits {
				w.idle(t, "web")
			}
			if row.then != nil {
				row.then(t, w)
			}
			decided := w.decided(t, "web")
			if decided.Action != row.want || decided.Class != row.class {
				t.Errorf("the controller does %+v, want %s %s", decided, row.want, row.class)
			}
			if diff := cmp.Diff(decided, w.explained(t, "web"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-controller +explanation\n%s", diff)
			}
		})
	}
}

// The explanation says nothing else while an Order is being deleted.
func TestExplainDeleted(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	o := w.newOrder(t, "web", newKey(t), func(o *acmev1.Order) { o.Finalizers = []string{metav1.FinalizerDeleteDependents} }, "a.example.com")
	w.must(t, w.api.Delete(t.Context(), o))
	e, err := explain.Order(t.Context(), explaintest.Reader{Reader: w.api}, explain.Query{Namespace: "shop", Name: "web", Now: w.clock.Now()})
	if err != nil || e.Verdict != "web is being deleted, and nothing is done for it" || e.Next != nil {
		t.Errorf("%+v, error %v", e, err)
	}
}
