package orders

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/order"
)

// world is an API, a CA and the controller between them.
type world struct {
	ca     *acmetest.Server
	api    client.Client
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	acme   *acme.Client
	*reconciler

	// fail, if not nil, is called before and after each write. If it reports true
	// before, the write is not made; if after, it is made and its answer is lost.
	fail func(write string, before bool) bool
	// unsolved leaves the Challenges as they are.
	unsolved bool
	uids     int
}

// newWorld starts a world with a ClusterIssuer that has a solver for HTTP-01 and
// one for DNS-01.
func newWorld(t *testing.T, o acmetest.Options) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakePassiveClock(time.Now()), events: events.NewFakeRecorder(1000)}
	o.Now = w.clock.Now
	w.ca = acmetest.Start(t, o)
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "test", Clock: w.clock, Jitter: func(time.Duration) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if w.acme, err = pool.Client(acme.Config{Directory: w.ca.Directory(), Key: newKey(t), CABundle: w.ca.CABundle()}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.acme.Register(t.Context(), acme.Registration{}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := certmanager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&acmev1.Order{}, &acmev1.Challenge{}, &cmv1.ClusterIssuer{}).
		WithIndex(&acmev1.Challenge{}, byOrder, orderNames).WithIndex(&acmev1.Order{}, byNames, orderedNames).
		WithInterceptorFuncs(w.faults()).Build()
	w.must(t, w.api.Create(t.Context(), issuerWith(solverHTTP(), solverDNS())))
	w.restart()
	return w
}

// restart replaces the controller by one that remembers nothing.
func (w *world) restart() {
	w.reconciler = newReconciler(Config{
		Client: w.api, Clock: w.clock, Jitter: func(time.Duration) time.Duration { return 0 }, Events: w.events,
		Clients: func(context.Context, cmv1.GenericIssuer) (Client, error) { return w.acme, nil },
	}, w.api)
}

// faults gives objects their UIDs, and fails writes.
func (w *world) faults() interceptor.Funcs {
	failing := func(what string, do func() error) error {
		if w.fail != nil && w.fail(what, true) {
			return fmt.Errorf("%s: the API is not available", what)
		}
		if err := do(); err != nil {
			return err
		}
		if w.fail != nil && w.fail(what, false) {
			return fmt.Errorf("%s: the answer was lost", what)
		}
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.uids++
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", w.uids)))
			return failing(fmt.Sprintf("create %T", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return failing(fmt.Sprintf("delete %T", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return failing(fmt.Sprintf("update %T", o), func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
	}
}

func (*world) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func solverHTTP() acmev1.ACMEChallengeSolver {
	return acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}
}

func solverDNS() acmev1.ACMEChallengeSolver {
	return acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "example.com", SolverName: "x"}}}
}

func issuerWith(solvers ...acmev1.ACMEChallengeSolver) *cmv1.ClusterIssuer {
	issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "le"}}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{Server: "https://ca.example", Solvers: solvers}
	return issuer
}

// changeIssuer changes the spec of the issuer.
func (w *world) changeIssuer(t *testing.T, change func(*acmev1.ACMEIssuer)) {
	t.Helper()
	issuer := &cmv1.ClusterIssuer{}
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Name: "le"}, issuer))
	change(issuer.Spec.ACME)
	w.must(t, w.api.Update(t.Context(), issuer))
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newOrder creates an Order for these names and addresses.
func (w *world) newOrder(t *testing.T, name string, key crypto.Signer, change func(*acmev1.Order), values ...string) *acmev1.Order {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: values[0]}}
	o := &acmev1.Order{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(w.clock.Now())},
		Spec:       acmev1.OrderSpec{CommonName: values[0], IssuerRef: cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}},
	}
	for _, value := range values {
		if ip := net.ParseIP(value); ip != nil {
			template.IPAddresses, o.Spec.IPAddresses = append(template.IPAddresses, ip), append(o.Spec.IPAddresses, value)
		} else {
			template.DNSNames, o.Spec.DNSNames = append(template.DNSNames, value), append(o.Spec.DNSNames, value)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	w.must(t, err)
	o.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	if change != nil {
		change(o)
	}
	w.must(t, w.api.Create(t.Context(), o))
	return o
}

func (w *world) order(t *testing.T, name string) *acmev1.Order {
	t.Helper()
	o := &acmev1.Order{}
	w.must(t, w.api.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, o))
	return o
}

func (w *world) challenges(t *testing.T) []acmev1.Challenge {
	t.Helper()
	list := &acmev1.ChallengeList{}
	w.must(t, w.api.List(t.Context(), list))
	return list.Items
}

// solve does the work of the controller for Challenges. It reports whether it
// has changed anything.
func (w *world) solve(t *testing.T) bool {
	t.Helper()
	changed := false
	for _, c := range w.challenges(t) {
		if w.unsolved || order.IsFinal(c.Status.State) {
			continue
		}
		if _, err := w.acme.Accept(t.Context(), c.Spec.URL); err != nil {
			c.Status.State, c.Status.Reason = acmev1.Invalid, err.Error()
		} else {
			said, err := w.acme.Authorization(t.Context(), c.Spec.AuthorizationURL)
			w.must(t, err)
			if c.Status.State == order.State(said.Status) {
				continue
			}
			c.Status.State = order.State(said.Status)
			for _, offered := range said.Challenges {
				if offered.Error != nil {
					c.Status.Reason = offered.Error.Error()
				}
			}
		}
		w.must(t, w.api.Status().Update(t.Context(), &c))
		changed = true
	}
	return changed
}

// step processes the Order once and lets the others act. It returns how long
// the controller waits, 0 if something has changed, -1 if it waits without an end.
func (w *world) step(t *testing.T, name string) time.Duration {
	t.Helper()
	before, challenges := w.order(t, name), len(w.challenges(t))
	result, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(before)})
	after := w.order(t, name)
	solved := w.solve(t)
	switch {
	case err != nil:
		return firstPause
	case solved, before.ResourceVersion != after.ResourceVersion, challenges != len(w.challenges(t)):
		return 0
	case result.RequeueAfter > 0:
		return result.RequeueAfter
	}
	return -1
}

// settle processes an Order until it has ended. The clock goes on whenever
// nothing happens.
func (w *world) settle(t *testing.T, name string) *acmev1.Order {
	t.Helper()
	return w.until(t, name, "ends", isDone)
}

// until processes an Order until it is in a state.
func (w *world) until(t *testing.T, name, what string, reached func(*acmev1.Order) bool) *acmev1.Order {
	t.Helper()
	began := w.clock.Now()
	for range 300 {
		wait := w.step(t, name)
		o := w.order(t, name)
		if reached(o) {
			return o
		}
		if wait < 0 {
			t.Fatalf("nothing wakes the Order before it %s: %+v", what, o.Status)
		}
		w.clock.SetTime(w.clock.Now().Add(wait))
	}
	t.Fatalf("in %v the Order never %s: %+v", w.clock.Now().Sub(began), what, w.order(t, name).Status)
	return nil
}

// idle processes an Order until nothing changes any more without an event.
func (w *world) idle(t *testing.T, name string) *acmev1.Order {
	t.Helper()
	for range 50 {
		if wait := w.step(t, name); wait < 0 || wait >= 10*time.Second {
			return w.order(t, name)
		} else if wait > 0 {
			w.clock.SetTime(w.clock.Now().Add(wait))
		}
	}
	t.Fatalf("the Order does not come to rest: %+v", w.order(t, name).Status)
	return nil
}

// issued checks that an Order has a certificate for a key, and returns it.
func (w *world) issued(t *testing.T, o *acmev1.Order, key crypto.Signer) []*x509.Certificate {
	t.Helper()
	if o.Status.State != acmev1.Valid {
		t.Fatalf("%s: %+v", o.Name, o.Status)
	}
	chain, err := pki.ParseCertificates(o.Status.Certificate)
	w.must(t, err)
	if !pki.SameKey(chain[0].PublicKey, key.Public()) {
		t.Error("the certificate is for another key")
	}
	if o.Status.Reason != "" || o.Status.FailureTime != nil {
		t.Errorf("%+v", o.Status)
	}
	return chain
}

// told returns the Events so far.
func (w *world) told() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func has(texts []string, part string) bool {
	for _, text := range texts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

// reply returns a hook that gives one answer to some of the requests of a kind.
func reply(kind acmetest.Kind, with *acmetest.Reply, numbers ...int) func(acmetest.Call) *acmetest.Reply {
	return func(c acmetest.Call) *acmetest.Reply {
		if c.Kind != kind {
			return nil
		}
		for _, n := range numbers {
			if c.N == n {
				return with
			}
		}
		if len(numbers) == 0 {
			return with
		}
		return nil
	}
}

var _ Client = (*acme.Client)(nil)
