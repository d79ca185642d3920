// Package passon forwards Revocations to the external CAs of issuers.
//
// The server refuses the certificates before that, and does not wait for these CAs. Progress is
// not stored: every CA accepts a second request, so a new process repeats them.
package passon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config is the configuration of the controller.
type Config struct {
	// Client reads past caches. It needs get on revocations, certificaterequests and
	// certificatesigningrequests, and update on revocations/status.
	Client client.Client
	// Revocations is a cache with Watched.
	Revocations cache.Cache
	// Records is the inventory. If it is nil, existing requests in the API identify the issuer
	// of a certificate.
	Records Records
	// Issuers are the issuers of all types.
	Issuers Issuers
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records Events of Revocations.
	Events events.EventRecorder
}

// The reasons of the condition PassedOn, which are those of Events too.
const (
	reasonPassedOn     = "PassedOn"
	reasonNotPassedOn  = "NotPassedOn"
	reasonNotSupported = "NotSupported"
	// reasonNoCertificate: the CA needs the certificate itself, which is not stored.
	reasonNoCertificate = "NoCertificate"
)

const (
	name = "passon"
	// patience is how long after a revocation CAs that fail are told again.
	patience = 24 * time.Hour
	// atOnce certificates are passed on before other Revocations have their turn, and the rest
	// after nextTurn: so a CA is called at most ten times a second for one Revocation.
	atOnce   = 10
	nextTurn = time.Second
	// lookAgain is the wait for entries that this process does not know yet.
	lookAgain = time.Second
	// concurrency is how many Revocations are passed on at a time.
	concurrency = 3
	// shown is how many issuers with errors a condition has at most.
	shown = 5
)

// pause is the wait until CAs that have failed are told again.
var pause = backoff.Backoff{First: 10 * time.Second, Most: 30 * time.Minute}

// Watched restricts a cache to what the controller watches of Revocations.
func Watched() cache.Options {
	return cache.Options{DefaultTransform: func(object any) (any, error) {
		if r, ok := object.(*v1alpha1.Revocation); ok {
			r.ManagedFields, r.Spec = nil, v1alpha1.RevocationSpec{Upstream: r.Spec.Upstream}
		}
		return object, nil
	}}
}

// Add adds the controller to mgr, whose cache has the issuers and the requests. It works while
// the API has Revocations.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	r := &reconciler{Config: cfg, cache: mgr.GetCache(), acts: map[string]*act{}}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the controller that passes revocations on: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache client.Reader

	mu   sync.Mutex
	acts map[string]*act // by the name of the Revocation, for a day; mu guards the map
}

// act is the work on one Revocation.
type act struct {
	uid types.UID
	// todo are the certificates of this round; failed are retried in the next one.
	todo, failed []issued
	passed       int
	// problems are errors of this round, final those that no repetition ends: each with the
	// signer before it.
	problems, noCertificate, notSupported map[string]bool
	// left is how many certificates have a final error.
	left, rounds int
	// next is when the next round begins.
	next time.Time
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "revocations", r.Versions).While(ctx, name, "Passing revocations on to the CAs of issuers", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	working, err := worker.New(ctx, name, r, worker.Options{Concurrency: concurrency, FirstPause: pause.First, LastPause: pause.Most, Timeout: 10 * time.Minute})
	if err != nil {
		return err
	}
	if err := working.Watch(source.Kind(r.Revocations, &v1alpha1.Revocation{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Revocation]{})); err != nil {
		return fmt.Errorf("watching Revocations: %w", err)
	}
	return working.Start(ctx)
}

// due reports whether a Revocation is to be passed on now.
func (r *reconciler) due(object *v1alpha1.Revocation) bool {
	return object.Spec.Upstream != v1alpha1.UpstreamSkip && r.Clock.Since(object.CreationTimestamp.Time) < patience &&
		!meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.RevocationPassedOn)
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen := &v1alpha1.Revocation{}
	if err := r.Revocations.Get(ctx, request.NamespacedName, seen); err != nil || !r.due(seen) {
		r.remember(request.Name, nil)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	a := r.known(request.Name)
	if a == nil || a.uid != seen.UID {
		object := &v1alpha1.Revocation{}
		if err := r.Client.Get(ctx, request.NamespacedName, object); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		all, err := r.find(ctx, object)
		if errors.Is(err, errNotReadYet) {
			return reconcile.Result{RequeueAfter: lookAgain}, nil
		} else if err != nil {
			return reconcile.Result{}, err
		}
		a = &act{uid: object.UID, todo: all}
		r.remember(request.Name, a)
	}
	if wait := a.next.Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if len(a.todo) > 0 {
		r.pass(ctx, a)
		if err := ctx.Err(); err != nil {
			return reconcile.Result{}, err
		}
		if len(a.todo) > 0 {
			return reconcile.Result{RequeueAfter: nextTurn}, nil
		}
	}
	return r.endRound(ctx, seen, a)
}

// pass passes on some certificates.
func (r *reconciler) pass(ctx context.Context, a *act) {
	for range min(atOnce, len(a.todo)) {
		if ctx.Err() != nil {
			return
		}
		next := a.todo[0]
		elsewhere, err := r.tell(ctx, &next)
		a.todo = a.todo[1:]
		switch {
		case !elsewhere:
		case err == nil:
			a.passed++
		case errors.Is(err, issuing.ErrCannotRevoke):
			a.left++
			note(&a.notSupported, next.signer)
		case errors.Is(err, issuing.ErrNoCertificate):
			a.left++
			note(&a.noCertificate, next.signer)
		default:
			a.failed = append(a.failed, next)
			note(&a.problems, next.signer+": "+eventtext.Line(err.Error()))
		}
	}
}

func note(texts *map[string]bool, text string) {
	if *texts == nil {
		*texts = map[string]bool{}
	}
	(*texts)[text] = true
}

func list(texts map[string]bool) string {
	all := slices.Sorted(maps.Keys(texts))
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, "; ")
}

// endRound writes the condition once all certificates were tried.
func (r *reconciler) endRound(ctx context.Context, seen *v1alpha1.Revocation, a *act) (reconcile.Result, error) {
	if a.passed+a.left+len(a.failed) == 0 { // no CA is elsewhere
		return reconcile.Result{}, nil
	}
	verdict := a.verdict(seen.CreationTimestamp.Add(patience))
	if err := r.write(ctx, client.ObjectKeyFromObject(seen), verdict); apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: lookAgain}, nil
	} else if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if len(a.failed) == 0 {
		return reconcile.Result{}, nil
	}
	a.todo, a.failed, a.problems = a.failed, nil, nil
	a.rounds++
	wait := pause.After(a.rounds)
	a.next = r.Clock.Now().Add(wait)
	return reconcile.Result{RequeueAfter: wait}, nil
}

// verdict returns the condition after a round.
func (a *act) verdict(until time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.RevocationPassedOn, Status: metav1.ConditionFalse}
	var texts []string
	add := func(reason, text string) {
		texts = append(texts, text)
		if c.Reason == "" {
			c.Reason = reason
		}
	}
	if len(a.failed) > 0 {
		add(reasonNotPassedOn, fmt.Sprintf("%d certificates are not revoked by the CAs of their issuers, which are told again until %s: %s", len(a.failed), until.UTC().Format(time.RFC3339), list(a.problems)))
	}
	if len(a.noCertificate) > 0 {
		add(reasonNoCertificate, "The CA must be given the certificate, which is not stored any more: revoke it again and give it as pem: "+list(a.noCertificate))
	}
	if len(a.notSupported) > 0 {
		add(reasonNotSupported, "Issuers that cannot be told of revocations, so revoke the certificates at their CA: "+list(a.notSupported))
	}
	if len(texts) == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, reasonPassedOn
		add("", fmt.Sprintf("The CAs of the issuers have revoked %d certificates", a.passed))
	}
	c.Message = eventtext.Fit(strings.Join(texts, ". "))
	return c
}

// write stores the condition, with an Event if its reason is new.
func (r *reconciler) write(ctx context.Context, name client.ObjectKey, c metav1.Condition) error {
	object := &v1alpha1.Revocation{}
	c.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	before, err := worker.SetCondition(ctx, r.Client, name, object, func() *[]metav1.Condition { return &object.Status.Conditions }, c)
	if err != nil || before == c.Reason || r.Events == nil {
		return err
	}
	kind, reason := corev1.EventTypeWarning, reasonNotPassedOn
	if c.Status == metav1.ConditionTrue {
		kind, reason = corev1.EventTypeNormal, reasonPassedOn
	}
	r.Events.Eventf(object, nil, kind, reason, "PassOn", "%s", c.Message)
	return nil
}

func (r *reconciler) known(name string) *act {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acts[name]
}

// remember remembers the work on a Revocation; nil forgets it.
func (r *reconciler) remember(name string, a *act) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acts[name] = a; a == nil {
		delete(r.acts, name)
	}
}
