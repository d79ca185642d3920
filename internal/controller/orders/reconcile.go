package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/process/eventtext"
)

type reconciler struct {
	Config
	// cache has Orders, Challenges and issuers.
	cache    client.Reader
	memories memories
	indexed  bool // only work uses it
}

func newReconciler(cfg Config, cache client.Reader) *reconciler {
	return &reconciler{Config: cfg, cache: cache, memories: memories{of: map[types.NamespacedName]*remembered{}}}
}

// pass is one pass over an Order.
type pass struct {
	*reconciler
	// was is the stored Order, now the changed copy.
	was, now   *acmev1.Order
	challenges []*acmev1.Challenge
	memory     *remembered
	// issuer is nil if it cannot be used; obstacle says why. ca is the client of
	// its account.
	issuer   cmv1.GenericIssuer
	obstacle string
	ca       Client
	// problem is the last problem of the CA; nil without one.
	problem *rfc8555.Problem
}

// Reconcile takes the next step for one Order.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	p, err := r.begin(ctx, key.NamespacedName)
	if p == nil || err != nil {
		return reconcile.Result{}, err
	}
	result, err := p.run(ctx)
	switch {
	case err == nil && isDone(p.now):
		r.memories.forget(key.NamespacedName)
	case errors.Is(ctx.Err(), context.Canceled):
		return reconcile.Result{}, nil // the next leader goes on
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	}
	return result, err
}

// conflictPause is how long to wait after another client has changed the Order.
// What the CA has said is remembered.
const conflictPause = time.Second

// begin reads the objects of a pass; nil means that the Order needs no work. The Order is
// read past the cache: from an older one it could seem that the CA was not asked yet.
func (r *reconciler) begin(ctx context.Context, key types.NamespacedName) (*pass, error) {
	o := &acmev1.Order{}
	if err := r.cache.Get(ctx, key, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.memories.forget(key)
		}
		return nil, client.IgnoreNotFound(err)
	}
	challenges, err := r.challengesOf(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.DeletionTimestamp != nil || isDone(o) && len(challenges) == 0 {
		r.memories.forget(key)
		return nil, nil
	}
	stored := &acmev1.Order{}
	if err := r.Client.Get(ctx, key, stored); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if stored.UID != o.UID || stored.DeletionTimestamp != nil {
		return nil, nil // the cache will say so
	}
	p := &pass{reconciler: r, was: stored, now: stored.DeepCopy(), challenges: challenges, memory: r.memories.get(key, o.UID)}
	if said := p.memory.Order; said != nil && stored.Status.URL != "" && stored.Status.URL != said.URL {
		*p.memory = remembered{uid: o.UID} // another process has ordered too, and its order counts
	}
	if isDone(stored) {
		return p, nil
	}
	return p, p.findIssuer(ctx)
}

// isDone reports whether an Order can no longer change.
func isDone(o *acmev1.Order) bool {
	return order.IsFailure(o.Status.State) || o.Status.State == acmev1.Valid && len(o.Status.Certificate) > 0
}

// challengesOf returns the Challenges that an Order controls.
func (r *reconciler) challengesOf(ctx context.Context, o *acmev1.Order) ([]*acmev1.Challenge, error) {
	list := &acmev1.ChallengeList{}
	if err := r.cache.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingFields{byOrder: o.Name}); err != nil {
		return nil, fmt.Errorf("listing the Challenges of the Order: %w", err)
	}
	var all []*acmev1.Challenge
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], o) {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// findIssuer finds the issuer of the Order and the client of its account. Its
// error is an API error.
func (p *pass) findIssuer(ctx context.Context) error {
	of := order.IssuerOf(p.was.Namespace, p.was.Spec.IssuerRef)
	issuer, err := certmanager.NewIssuer(of.Kind)
	if err != nil {
		p.obstacle = fmt.Sprintf("error reading (cluster)issuer %q: %v", of.Name, err)
		return nil
	}
	err = p.cache.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, issuer)
	switch {
	case apierrors.IsNotFound(err):
		issuer = nil
	case err != nil:
		return fmt.Errorf("error reading (cluster)issuer %q: %w", of.Name, err)
	}
	if p.obstacle = order.IssuerObstacle(of, issuer); p.obstacle != "" {
		return nil
	}
	if p.ca, err = p.Clients(ctx, issuer); err != nil {
		p.obstacle = eventtext.Fit(err.Error())
		return nil
	}
	p.issuer = issuer
	if version := issuer.GetResourceVersion(); version != p.memory.issuerVersion {
		p.memory.issuerVersion = version
		if p.memory.Class == order.WaitsIssuer { // it may be that what the CA did not like is over
			p.memory.NotBefore = time.Time{}
		}
	}
	return nil
}

func (p *pass) situation() order.Situation {
	s := order.Situation{Order: p.now, Obstacle: p.obstacle, Challenges: p.challenges, Memory: p.memory.Memory, Now: p.Clock.Now()}
	if p.issuer != nil {
		s.Issuer = p.issuer.GetSpec().ACME
	}
	return s
}

// run takes the steps that follow each other without a wait, and writes the status once:
// each write wakes the clients that wait for the Order.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	if said := p.memory.Order; p.now.Status.URL == "" && said != nil { // an order whose URL could not be stored
		order.Observe(&p.now.Status, *said)
	}
	step, next, err := p.steps(ctx)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, p.write(ctx))
	}
	p.show(next)
	p.measure(next)
	if err := p.write(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if next.Action == order.End {
		return reconcile.Result{}, p.cleanUp(ctx, next)
	}
	return p.again(step, next), nil
}

// maxSteps is the maximum number of steps in a pass. Passes wait after fewer steps unless
// there is a programming error.
const maxSteps = 10

// steps takes steps until one has to be stored before the next. It returns the
// last one and what is next.
func (p *pass) steps(ctx context.Context) (step, next order.Step, err error) {
	for range maxSteps {
		step = order.Next(p.situation())
		if step.Missing != nil {
			p.tell(order.WaitsSolver, step)
		}
		if next, err = p.act(ctx, step); err != nil || !follows(step, next) || isDone(p.now) {
			break
		}
	}
	return step, next, err
}

// follows reports whether the next step can be taken before the status is
// stored: if it is not, the CA can be asked again. The URL of an order cannot be
// found out again.
func follows(done, next order.Step) bool {
	switch next.Action {
	case order.Read, order.ReadAuthorizations, order.Plan, order.Finalize, order.Download:
		return done.Action != order.Create && done.Action != order.Plan && done.Action != next.Action
	}
	return false
}

// show writes into the status how a pass has ended. If the next pass follows at
// once, a reason stays, so that the status changes rarely.
func (p *pass) show(next order.Step) {
	status := &p.now.Status
	switch {
	case next.Action == order.End:
		order.Fail(status, next.State, next.Reason, p.Clock.Now())
		p.event(corev1.EventTypeWarning, "Failed", status.Reason)
	case isDone(p.now):
		if status.State == acmev1.Valid {
			status.Reason = ""
		}
	case next.Action == order.Await:
		status.Reason = next.Reason
		p.tell(next.Class, next)
	case status.State != p.was.Status.State: // what it has waited for is over
		status.Reason = ""
	}
}

// causes are the values of a label, for what Orders wait for.
var causes = map[order.Class]string{
	order.WaitsChallenges: "challenges", order.WaitsCA: "ca", order.WaitsLimit: "limit", order.WaitsIssuer: "issuer", order.WaitsSolver: "solver",
}

// measure counts the wait that has ended, if one has.
func (p *pass) measure(next order.Step) {
	waits, now := order.Unhindered, p.Clock.Now()
	if next.Action == order.Await {
		waits = next.Class
	}
	m := p.memory
	if waits == m.waits {
		return
	}
	if cause, ok := causes[m.waits]; ok {
		p.Metrics.OrderWaited(cause, now.Sub(m.since))
	}
	m.waits, m.since = waits, now
}

// again returns when to reconcile the Order again after the step done.
func (p *pass) again(done, next order.Step) reconcile.Result {
	now := p.Clock.Now()
	switch {
	case next.Action == order.None:
		return reconcile.Result{}
	case next.Action == order.Await && p.issuer == nil && p.obstacle != "":
		return reconcile.Result{RequeueAfter: obstaclePause} // a Secret may be there by then
	case next.Action == order.Plan && done.Action == order.Plan: // the cache shows the Challenges soon
		return reconcile.Result{RequeueAfter: planPause}
	case next.Action != order.Await:
		return reconcile.Result{RequeueAfter: time.Millisecond}
	case next.Again.IsZero():
		return reconcile.Result{}
	}
	wait := max(next.Again.Sub(now), time.Millisecond)
	if spread := min(wait/10, time.Minute); spread > 0 {
		wait += p.Jitter(spread)
	}
	return reconcile.Result{RequeueAfter: wait}
}

const (
	// obstaclePause is the wait for an issuer that cannot be used. What ends it is
	// usually an event of the issuer.
	obstaclePause = time.Minute
	// planPause is the wait for the events of Challenges that were created or
	// deleted.
	planPause = 5 * time.Second
)

// write stores the status if it has changed.
func (p *pass) write(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(p.was.Status, p.now.Status) {
		return nil
	}
	if err := p.Client.Status().Update(ctx, p.now, client.FieldOwner(Component)); err != nil {
		return fmt.Errorf("writing the status of the Order: %w", err)
	}
	if !isDone(p.was) && isDone(p.now) {
		if p.now.Status.State == acmev1.Valid {
			p.problem = nil
		}
		p.Metrics.OrderEnded(string(p.now.Status.State), p.problem)
	}
	if p.was.Status.State != acmev1.Valid || len(p.was.Status.Certificate) == 0 {
		if p.now.Status.State == acmev1.Valid && len(p.now.Status.Certificate) > 0 {
			p.event(corev1.EventTypeNormal, "Complete", "Order completed successfully")
		}
	}
	return nil
}

// eventsOf are the reasons of the Events about what an Order waits for.
var eventsOf = map[order.Class]string{
	order.WaitsLimit:  "RateLimited",
	order.WaitsIssuer: "IssuerNotReady",
	order.WaitsSolver: "Solver",
}

// tell records an Event if the Order waits for something of another class than
// before.
func (p *pass) tell(class order.Class, step order.Step) {
	if class == p.memory.told {
		return
	}
	p.memory.told = class
	text := step.Reason
	if class == order.WaitsSolver {
		text = "Failed to determine a valid solver configuration for the set of domains on the Order: " + step.Missing.Error()
	}
	if reason, ok := eventsOf[class]; ok {
		p.event(corev1.EventTypeWarning, reason, text)
	}
}

func (p *pass) event(kind, reason, text string) {
	if p.Events != nil {
		p.Events.Eventf(p.was, nil, kind, reason, "Order", "%s", eventtext.Fit(text))
	}
}
