package challenges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/challenge"
)

// world is an API, a CA, a network, and a controller whose queue follows a
// clock that the tests have.
type world struct {
	*testing.T
	clock    *clocktesting.FakePassiveClock
	api      client.Client
	net      *network
	ca       *ca
	settings ChallengeSettings
	events   []string
	suspects int
	clients  func(context.Context, cmv1.GenericIssuer) (Client, error)

	controller *reconciler
	queue      map[types.NamespacedName]time.Time
	ctx        context.Context
	kill       context.CancelFunc
	// fault, if not nil, is called before and after each effect of the process
	// on the world; its error is that of the call.
	fault func(effect string, done bool) error
	// took is how long each call of a solver takes.
	took time.Duration
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second)), settings: DefaultChallengeSettings(), queue: map[types.NamespacedName]time.Time{}}
	scheme := runtime.NewScheme()
	if err := errors.Join(certmanager.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "le"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&acmev1.Challenge{}).Build()
	w.net = &network{world: w, answers: map[string]string{}, visible: func(*acmev1.Challenge) error { return nil }}
	w.ca = &ca{world: w, authorizations: map[string]*rfc8555.Authorization{}}
	w.clients = func(context.Context, cmv1.GenericIssuer) (Client, error) { return w.ca, nil }
	w.start()
	return w
}

// start starts a controller that knows nothing; the one before is dead.
func (w *world) start() {
	if w.kill != nil {
		w.kill()
	}
	w.ctx, w.kill = context.WithCancel(w.Context())
	mine := w.ctx
	w.controller = newReconciler(Config{
		Client: w.process(mine), ClusterResources: "cert-manager", Settings: w.settings, Clock: w.clock,
		Jitter:  func(time.Duration) time.Duration { return 0 },
		Solvers: func(*acmev1.Challenge) (solver.Solver, error) { return w.net, nil },
		Clients: func(ctx context.Context, issuer cmv1.GenericIssuer) (Client, error) { return w.clients(ctx, issuer) },
		Suspect: func(cmv1.GenericIssuer) { w.suspects++ },
		Events:  recorder{w},
	}, nil, w.api)
	w.controller.slots.notify(func(key types.NamespacedName) { w.add(key, w.clock.Now()) })
	var all acmev1.ChallengeList
	if err := w.api.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	w.controller.slots.seed(all.Items)
	clear(w.queue)
	for _, ch := range all.Items {
		w.add(client.ObjectKeyFromObject(&ch), w.clock.Now())
	}
}

// process is the API as a process sees it until it ends.
func (w *world) process(alive context.Context) client.Client {
	write := func(effect string, do func() error) error {
		if alive.Err() != nil {
			return alive.Err()
		}
		return w.effect(effect, do)
	}
	return interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.UpdateOption) error {
			return write("update", func() error { return c.Update(ctx, object, o...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, o ...client.SubResourceUpdateOption) error {
			return write("update "+sub, func() error { return c.SubResource(sub).Update(ctx, object, o...) })
		},
	})
}

// effect does something to the world, unless there is a fault.
func (w *world) effect(name string, do func() error) error {
	if w.fault != nil {
		if err := w.fault(name, false); err != nil {
			return err
		}
	}
	err := do()
	if w.fault != nil && err == nil {
		err = w.fault(name, true)
	}
	return err
}

func (w *world) add(key types.NamespacedName, at time.Time) {
	if due, queued := w.queue[key]; !queued || at.Before(due) {
		w.queue[key] = at
	}
}

// step does the work that is due first, if it is due before a time.
func (w *world) step(end time.Time) bool {
	w.Helper()
	var key types.NamespacedName
	for one, at := range w.queue {
		if first, any := w.queue[key]; !any || at.Before(first) || (at.Equal(first) && one.String() < key.String()) {
			key = one
		}
	}
	at, any := w.queue[key]
	if !any || at.After(end) {
		return false
	}
	delete(w.queue, key)
	if at.After(w.clock.Now()) {
		w.clock.SetTime(at)
	}
	before := w.version(key)
	result, err := w.controller.Reconcile(w.ctx, reconcile.Request{NamespacedName: key})
	switch {
	case w.ctx.Err() != nil:
		return false
	case err != nil:
		w.add(key, w.clock.Now().Add(firstPause))
	case result.RequeueAfter > 0:
		w.add(key, w.clock.Now().Add(result.RequeueAfter))
	}
	if w.version(key) != before { // its own watch
		w.add(key, w.clock.Now())
	}
	return true
}

func (w *world) version(key types.NamespacedName) string {
	ch := &acmev1.Challenge{}
	if err := w.api.Get(w.Context(), key, ch); err != nil {
		return ""
	}
	return ch.ResourceVersion
}

// run lets the controller work for some time. It fails if the controller does
// not come to rest.
func (w *world) run(d time.Duration) {
	w.Helper()
	end := w.clock.Now().Add(d)
	for steps := 0; w.step(end); steps++ {
		if steps > 100_000 {
			w.Fatal("the controller never rests")
		}
	}
	if end.After(w.clock.Now()) {
		w.clock.SetTime(end)
	}
}

// create creates a Challenge, and its authorization at the CA.
func (w *world) create(namespace, name string, changes ...func(*acmev1.Challenge)) *acmev1.Challenge {
	w.Helper()
	ch := &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.Time{Time: w.clock.Now()}},
		Spec: acmev1.ChallengeSpec{
			URL: "https://ca/chall/" + name, AuthorizationURL: "https://ca/authz/" + name, DNSName: name + ".example.com",
			Type: acmev1.ACMEChallengeTypeDNS01, Token: "token-" + name, Key: "key-" + name,
			IssuerRef: cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"},
			Solver:    acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{TSIGSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "tsig"}}}}},
		},
	}
	for _, change := range changes {
		change(ch)
	}
	if err := w.api.Create(w.Context(), ch); err != nil {
		w.Fatal(err)
	}
	w.ca.authorizations[ch.Spec.AuthorizationURL] = &rfc8555.Authorization{
		Identifier: rfc8555.Identifier{Type: "dns", Value: ch.Spec.DNSName}, Status: "pending",
		Challenges: []rfc8555.Challenge{{URL: ch.Spec.URL, Status: "pending"}},
	}
	w.add(client.ObjectKeyFromObject(ch), w.clock.Now())
	return ch
}

func http01(ch *acmev1.Challenge) {
	ch.Spec.Type = acmev1.ACMEChallengeTypeHTTP01
	ch.Spec.Solver = acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{}}
}

// get returns a Challenge; nil if it is gone.
func (w *world) get(ch *acmev1.Challenge) *acmev1.Challenge {
	w.Helper()
	latest := &acmev1.Challenge{}
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(ch), latest)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return latest
}

// delete deletes a Challenge.
func (w *world) delete(ch *acmev1.Challenge) {
	w.Helper()
	if err := client.IgnoreNotFound(w.api.Delete(w.Context(), ch)); err != nil {
		w.Fatal(err)
	}
	w.add(client.ObjectKeyFromObject(ch), w.clock.Now())
}

// ended fails the test unless a Challenge has this state and nothing is left.
func (w *world) ended(ch *acmev1.Challenge, state acmev1.State) {
	w.Helper()
	got := w.get(ch)
	if got == nil {
		w.Errorf("%s is gone", ch.Name)
		return
	}
	if s := got.Status; s.State != state || s.Presented || s.Processing || len(got.Finalizers) > 0 || got.Annotations[challenge.Presented] != "" {
		w.Errorf("%s ends with %+v, finalizers %v, annotations %v; want %s", ch.Name, s, got.Finalizers, got.Annotations, state)
	}
	w.clean()
}

// clean fails the test if an answer is left.
func (w *world) clean() {
	w.Helper()
	if left := slices.Sorted(maps.Keys(w.net.answers)); len(left) > 0 {
		w.Errorf("left behind: %q", left)
	}
}

// network has the answers. It checks the contract of solvers.
type network struct {
	*world
	mu      sync.Mutex
	answers map[string]string // the key by where it is
	most    int               // how many there were at the same time
	calls   map[string]int
	// visible returns why an answer is not found yet.
	visible func(*acmev1.Challenge) error
	// where, prepare, present and clean replace the outcome.
	where                   func(*acmev1.Challenge) string
	prepare, present, clean error
	delay                   time.Duration
}

func (n *network) count(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.calls == nil {
		n.calls = map[string]int{}
	}
	n.calls[call]++
	n.clock.SetTime(n.clock.Now().Add(n.took))
}

func (n *network) place(task solver.Task) string { return task.Where + " " + task.Challenge.Spec.Key }

func (n *network) Prepare(_ context.Context, task solver.Task) (string, error) {
	n.count("Prepare")
	if n.where != nil {
		return n.where(task.Challenge), n.prepare
	}
	return "_acme-challenge." + task.Challenge.Spec.DNSName, n.prepare
}

func (n *network) Present(_ context.Context, task solver.Task) error {
	n.count("Present")
	return n.effect("present", func() error {
		stored := n.get(task.Challenge)
		if stored == nil || !challenge.HasFinalizer(stored) || stored.Annotations[challenge.Presented] != task.Where || !stored.Status.Processing {
			n.Errorf("%s is presented at %q, but stored is %+v", task.Challenge.Name, task.Where, stored)
		}
		if n.present != nil {
			return n.present
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.answers[n.place(task)] = task.Challenge.Spec.Key
		n.most = max(n.most, len(n.answers))
		return nil
	})
}

func (n *network) Check(_ context.Context, task solver.Task) (solver.Found, error) {
	n.count("Check")
	if !n.shows(task.Challenge.Spec.Key) {
		return solver.Found{}, errors.New("there is no answer")
	}
	return solver.Found{Delay: n.delay}, n.visible(task.Challenge)
}

func (n *network) CleanUp(_ context.Context, task solver.Task) error {
	n.count("CleanUp")
	return n.effect("clean up", func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.clean == nil {
			delete(n.answers, n.place(task))
		}
		return n.clean
	})
}

func (n *network) shows(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(slices.Collect(maps.Values(n.answers)), key)
}

// ca is a CA which validates when it is asked for the result.
type ca struct {
	*world
	mu             sync.Mutex
	authorizations map[string]*rfc8555.Authorization
	accepts        int
	// fails returns the error of a call, such as "accept".
	fails func(call string) error
	// slow is how often the CA has to be asked.
	slow int
	// problem, if not nil, is why validation fails.
	problem *rfc8555.Problem
}

func (c *ca) Authorization(_ context.Context, url string) (rfc8555.Authorization, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails != nil {
		if err := c.fails("authorization"); err != nil {
			return rfc8555.Authorization{}, err
		}
	}
	authz, ok := c.authorizations[url]
	if !ok {
		return rfc8555.Authorization{}, &rfc8555.Problem{Type: rfc8555.Namespace + "malformed", Status: 404, Detail: "no such authorization"}
	}
	if own := &authz.Challenges[0]; own.Status == "processing" {
		if c.slow--; c.slow < 0 {
			own.Status, own.Error = "valid", c.problem
			if c.problem != nil {
				own.Status = "invalid"
			}
			authz.Status = own.Status
		}
	}
	answer := *authz
	answer.Challenges = slices.Clone(authz.Challenges)
	return answer, nil
}

func (c *ca) Accept(_ context.Context, url string) (answer rfc8555.Challenge, err error) {
	err = c.effect("accept", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepts++
		if c.fails != nil {
			if err := c.fails("accept"); err != nil {
				return err
			}
		}
		for _, authz := range c.authorizations {
			own := &authz.Challenges[0]
			if own.URL != url {
				continue
			}
			if name := strings.TrimPrefix(url, "https://ca/chall/"); own.Status == "pending" && !c.net.shows("key-"+name) {
				c.Errorf("%s is accepted, but not presented", name)
			}
			if own.Status == "pending" {
				own.Status = "processing"
			}
			answer = *own
			return nil
		}
		return &rfc8555.Problem{Type: rfc8555.Namespace + "malformed", Status: 404, Detail: "no such challenge"}
	})
	return answer, err
}

// recorder keeps events as texts.
type recorder struct{ *world }

var _ events.EventRecorder = recorder{}

func (r recorder) Eventf(_, _ runtime.Object, kind, reason, _, format string, args ...any) {
	r.events = append(r.events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
}
