// Package passon forwards Revocations to the external CAs of issuers.
//
// The server refuses the certificates before that, and does not wait for these CAs. Progress is
// not stored: every CA accepts a second request, so a new process repeats them.
package passon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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

// The reasons of the condition PassedOn.
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
	r := &reconciler{Config: cfg, cache: mgr.GetCache()}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the controller that passes revocations on: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache client.Reader

	acts sync.Map // an *act by the name of the Revocation, for a day
}

// act is the work on one Revocation.
type act struct {
	uid types.UID
	// todo are the certificates of this round; failed are retried in the next one.
	todo, failed []issued
	passed       int
	// problems are what to tell of each reason: of errors of this round, and of those that no
	// repetition ends.
	problems map[problem]bool
	rounds   int
	// next is when the next round begins.
	next time.Time
}

type problem struct{ reason, text string }

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(v1alpha1.GroupVersion, "revocations", r.Versions).While(ctx, name, "Passing revocations on to the CAs of issuers", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	working, err := worker.New(ctx, name, r, worker.Options{Concurrency: concurrency, FirstPause: pause.First, LastPause: pause.Most, Timeout: 10 * time.Minute},
		source.Kind(r.Revocations, &v1alpha1.Revocation{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Revocation]{}))
	if err != nil {
		return err
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
		r.acts.Delete(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	known, _ := r.acts.Load(request.Name)
	a, ok := known.(*act)
	if !ok || a.uid != seen.UID {
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
		a = &act{uid: object.UID, todo: all, problems: map[problem]bool{}}
		r.acts.Store(request.Name, a)
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
			a.problems[problem{reasonNotSupported, next.signer}] = true
		case errors.Is(err, issuing.ErrNoCertificate):
			a.problems[problem{reasonNoCertificate, next.signer}] = true
		default:
			a.failed = append(a.failed, next)
			a.problems[problem{reasonNotPassedOn, next.signer + ": " + eventtext.Line(err.Error())}] = true
		}
	}
}

// list returns the texts of a reason.
func (a *act) list(reason string) string {
	var all []string
	for p := range a.problems {
		if p.reason == reason {
			all = append(all, p.text)
		}
	}
	slices.Sort(all)
	if more := len(all) - shown; more > 0 {
		all = append(all[:shown], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, "; ")
}

// endRound writes the condition once all certificates were tried.
func (r *reconciler) endRound(ctx context.Context, seen *v1alpha1.Revocation, a *act) (reconcile.Result, error) {
	if a.passed+len(a.problems) == 0 { // no CA is elsewhere
		return reconcile.Result{}, nil
	}
	verdict, object := a.verdict(seen.CreationTimestamp.Add(patience)), &v1alpha1.Revocation{}
	verdict.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	_, err := worker.SetCondition(ctx, r.Client, r.Events, client.ObjectKeyFromObject(seen), object, &object.Status.Conditions, verdict, "PassOn")
	if err != nil || len(a.failed) == 0 {
		return worker.Kept(0, client.IgnoreNotFound(err))
	}
	a.todo, a.failed = a.failed, nil
	maps.DeleteFunc(a.problems, func(p problem, _ bool) bool { return p.reason == reasonNotPassedOn })
	a.rounds++
	wait := pause.After(a.rounds)
	a.next = r.Clock.Now().Add(wait)
	return reconcile.Result{RequeueAfter: wait}, nil
}

// verdict returns the condition after a round.
func (a *act) verdict(until time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.RevocationPassedOn, Status: metav1.ConditionFalse}
	var texts []string
	for _, of := range []problem{
		{reasonNotPassedOn, fmt.Sprintf("%d certificates are not revoked by the CAs of their issuers, which are told again until %s: ", len(a.failed), until.UTC().Format(time.RFC3339))},
		{reasonNoCertificate, "The CA must be given the certificate, which is not stored any more: revoke it again and give it as pem: "},
		{reasonNotSupported, "Issuers that cannot be told of revocations, so revoke the certificates at their CA: "},
	} {
		if which := a.list(of.reason); which != "" {
			c.Reason, texts = cmp.Or(c.Reason, of.reason), append(texts, of.text+which)
		}
	}
	if len(texts) == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, reasonPassedOn
		texts = append(texts, fmt.Sprintf("The CAs of the issuers have revoked %d certificates", a.passed))
	}
	c.Message = eventtext.Fit(strings.Join(texts, ". "))
	return c
}
