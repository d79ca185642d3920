package acmevalidate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/acmeserver/validate"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/share"
)

// eventFailed is the reason of the Event on an order of which a challenge has failed
// for good.
const eventFailed = "ValidationFailed"

// look starts the attempts of one order that are due. They do not keep the worker: an
// account that waits for its places holds nobody else up.
func (r *reconciler) look(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	o := &v1alpha1.AcmeOrder{}
	if err := r.cache.Get(ctx, key.NamespacedName, o, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	due, next := acmeorder.DueChallenges(o, now)
	switch {
	case len(due) > 0:
		if mine := r.begin(key.NamespacedName, due); len(mine) > 0 {
			r.running.Go(func() { r.run(ctx, key, mine) })
		}
	case !next.IsZero():
		return reconcile.Result{RequeueAfter: max(next.Sub(now), time.Millisecond)}, nil
	}
	return reconcile.Result{}, nil
}

// begin returns those challenges of an order that nobody tries, and has them be tried
// by the caller.
func (r *reconciler) begin(key client.ObjectKey, due []acmeorder.Position) []acmeorder.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	var mine []acmeorder.Position
	for _, p := range due {
		if at := (challenge{key, p}); !r.busy[at] {
			r.busy[at] = true
			mine = append(mine, p)
		}
	}
	return mine
}

// end has the order looked at again: the cache knows the outcome by then.
func (r *reconciler) end(key reconcile.Request, tried []acmeorder.Position, failed bool) {
	r.forget(key.NamespacedName, tried)
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed {
		r.queue.AddRateLimited(key)
		return
	}
	r.queue.Forget(key)
	r.queue.AddAfter(key, quickly)
}

// forget lets others try challenges.
func (r *reconciler) forget(key client.ObjectKey, tried []acmeorder.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range tried {
		delete(r.busy, challenge{key, p})
	}
}

// quickly is how long what was written takes to come back.
const quickly = 100 * time.Millisecond

// run tries some challenges of an order.
func (r *reconciler) run(ctx context.Context, key reconcile.Request, mine []acmeorder.Position) {
	err := r.try(ctx, key.NamespacedName, mine)
	if ctx.Err() != nil {
		return // the next leader goes on
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot try the challenges of an order; trying again", "order", key.NamespacedName)
	}
	r.end(key, mine, err != nil)
}

// outcome is that of one attempt.
type outcome struct {
	at     acmeorder.Position
	kind   string
	result validate.Result
}

func (r *reconciler) try(ctx context.Context, key client.ObjectKey, mine []acmeorder.Position) error {
	o := &v1alpha1.AcmeOrder{} // past the cache: what was tried is not tried again
	if err := r.Client.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	due, _ := acmeorder.DueChallenges(o, r.Clock.Now())
	due = slices.DeleteFunc(due, func(p acmeorder.Position) bool { return !slices.Contains(mine, p) })
	if len(due) == 0 {
		return nil
	}
	with, err := r.prepare(ctx, o)
	if err != nil {
		return err
	}
	outcomes := make(chan outcome, len(due))
	var attempts sync.WaitGroup
	free := make(chan struct{}, maxOfAccount) // an account has no more places
	for _, p := range due {
		attempts.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if of, ok := r.attempt(ctx, o, p, with); ok {
				outcomes <- of
			}
		})
	}
	go func() {
		attempts.Wait()
		close(outcomes)
	}()
	var failures []error
	for first := range outcomes {
		failures = append(failures, r.record(ctx, key, with.endpoint, collect(first, outcomes)))
	}
	return errors.Join(failures...)
}

// preparation is what attempts for one order need.
type preparation struct {
	endpoint   *acmeorder.Endpoint
	thumbprint string // of the account's key
	validate.Config
}

func (r *reconciler) prepare(ctx context.Context, o *v1alpha1.AcmeOrder) (with preparation, err error) {
	if with.endpoint, err = r.facts.Endpoint(ctx, o.Spec.Endpoint); err != nil {
		return with, fmt.Errorf("reading the endpoint: %w", err)
	}
	if with.thumbprint, err = r.thumbprint(ctx, o.Spec.Account); err != nil {
		return with, err
	}
	with.Config, err = r.configOf(with.endpoint)
	return with, err
}

// collect returns an outcome and those that are there already: they need one write.
func collect(first outcome, more <-chan outcome) []outcome {
	all := []outcome{first}
	for {
		select {
		case next, ok := <-more:
			if !ok {
				return all
			}
			all = append(all, next)
		default:
			return all
		}
	}
}

// attempt tries one challenge once. ok is false if the process ends meanwhile.
func (r *reconciler) attempt(ctx context.Context, o *v1alpha1.AcmeOrder, p acmeorder.Position, with preparation) (of outcome, ok bool) {
	leave, err := r.places.Take(ctx, share.Tenant{Name: o.Spec.Account})
	if err != nil {
		return outcome{}, false
	}
	defer leave()
	a := &o.Status.Authorizations[p.Authorization]
	c := &a.Challenges[p.Challenge]
	token, began := acmeorder.Token(o, p), r.Clock.Now()
	result := validate.Validate(ctx, validate.Challenge{
		Type: c.Type, Token: token, KeyAuthorization: token + "." + with.thumbprint, Identifier: rfc8555.Identifier(a.Identifier), Wildcard: a.Wildcard,
	}, with.Config)
	if ctx.Err() != nil {
		return outcome{}, false
	}
	r.metrics.seconds.WithLabelValues(c.Type).Observe(r.Clock.Since(began).Seconds())
	said := "valid"
	if result.Problem != nil {
		said = strings.TrimPrefix(result.Problem.Type, rfc8555.Namespace)
		log.FromContext(ctx).V(1).Info("A challenge was not met", "order", client.ObjectKeyFromObject(o), "type", c.Type, "identifier", a.Identifier.Value, "cause", result.Cause)
	}
	r.metrics.outcomes.WithLabelValues(c.Type, said).Inc()
	return outcome{p, c.Type, result}, true
}

// maxTries is how often a verdict is written that other changes of the order come
// before.
const maxTries = 5

// record writes outcomes into the order, as it is by then.
func (r *reconciler) record(ctx context.Context, key client.ObjectKey, endpoint *acmeorder.Endpoint, outcomes []outcome) error {
	for range maxTries {
		o := &v1alpha1.AcmeOrder{}
		if err := r.Client.Get(ctx, key, o); err != nil {
			return client.IgnoreNotFound(err)
		}
		var failed []outcome
		changed := false
		for _, of := range outcomes {
			s := acmeorder.RecordAttempt(o, of.at, of.attempt(), endpoint.Spec(), r.Clock.Now())
			if s == nil {
				continue // the order has ended, or a sibling was met
			}
			o.Status, changed = *s, true
			if s.Authorizations[of.at.Authorization].State == rfc8555.StateInvalid {
				failed = append(failed, of)
			}
		}
		if !changed {
			return nil
		}
		err := r.Client.Status().Update(ctx, o, client.FieldOwner(Name))
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("writing the outcome of a validation: %w", err)
		}
		for _, of := range failed {
			r.event(o, of)
		}
		return nil
	}
	return errors.New("the order changes all the time")
}

func (r *reconciler) event(o *v1alpha1.AcmeOrder, of outcome) {
	if r.Events == nil {
		return
	}
	name := acmeorder.OrderedIdentifier(&o.Status.Authorizations[of.at.Authorization]).Value
	r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventFailed, "Validate", "%s", note.Fit(of.kind+" for "+name+": "+of.result.Problem.Detail))
}

// The bounds of what orders keep of an attempt.
const (
	maxHops = 11
	maxHop  = 2048
)

// attempt returns an outcome as orders record it.
func (of outcome) attempt() acmeorder.Attempt {
	seen := of.result.Record
	record := &v1alpha1.AcmeValidationRecord{
		Time: metav1.NewTime(seen.Time.UTC().Truncate(time.Second)), Resolver: cut(seen.Resolver, 261), TLSVersion: cut(seen.TLSVersion, 16), Digest: seen.SHA256,
	}
	if seen.Address.IsValid() {
		record.Address = cut(seen.Address.String(), 64)
	}
	for _, hop := range seen.Hops[:min(len(seen.Hops), maxHops)] {
		record.Hops = append(record.Hops, cut(hop.Site, maxHop))
	}
	return acmeorder.Attempt{Problem: of.result.Problem, Final: of.result.Final, Ours: of.result.OurFault, Record: record}
}

func cut(text string, most int) string { return text[:min(len(text), most)] }

// thumbprint returns that of the key in force of an account.
func (r *reconciler) thumbprint(ctx context.Context, name string) (string, error) {
	of, err := r.facts.Account(ctx, name)
	if err != nil || of.Account == nil {
		return "", errors.Join(err, fmt.Errorf("reading the account %s", name))
	}
	if problem := of.Problem(); problem != nil {
		return "", fmt.Errorf("the account %s is not in force: %s", name, problem.Detail)
	}
	key := &v1alpha1.AcmeAccountKey{}
	if err := r.cache.Get(ctx, client.ObjectKey{Name: of.Account.Status.Key}, key, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("reading the account's key: %w", err)
	}
	parsed, err := jws.StoredKey([]byte(key.Spec.JWK))
	if err != nil {
		return "", fmt.Errorf("parsing the account's key %s: %w", key.Name, err)
	}
	return parsed.ThumbprintText(), nil
}
