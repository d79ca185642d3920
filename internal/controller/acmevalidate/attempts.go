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
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/acme/acmeserver/validate"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// eventFailed is the reason of the Event about an order one of whose challenges has finally
// failed.
const eventFailed = "ValidationFailed"

// look starts the due attempts of one order. They do not occupy the worker, so an account
// that waits for its places does not delay other accounts.
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

// begin returns the due challenges of an order that are not being tried, and marks them as
// being tried by the caller.
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

// end queues the order again, once the cache contains the outcome.
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

// forget unmarks challenges, so that they can be tried again.
func (r *reconciler) forget(key client.ObjectKey, tried []acmeorder.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range tried {
		delete(r.busy, challenge{key, p})
	}
}

// quickly is the usual delay until a write appears in the cache.
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

// outcome is the outcome of one attempt.
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

// preparation holds the inputs of attempts for one order.
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

// collect returns first and all outcomes that are already available, so that one write
// stores them.
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

// attempt tries one challenge once. ok is false if the process ends during the attempt.
func (r *reconciler) attempt(ctx context.Context, o *v1alpha1.AcmeOrder, p acmeorder.Position, with preparation) (of outcome, ok bool) {
	leave, err := r.places.Take(ctx, fairshare.Tenant{Name: o.Spec.Account})
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
		log.FromContext(ctx).V(1).Info("The validation of a challenge failed", "order", client.ObjectKeyFromObject(o), "type", c.Type, "identifier", a.Identifier.Value, "cause", result.Cause)
	}
	r.metrics.outcomes.WithLabelValues(c.Type, said).Inc()
	return outcome{p, c.Type, result}, true
}

// maxTries is how often the write of a verdict is tried if other changes of the order
// conflict.
const maxTries = 5

// record writes outcomes into the current version of the order.
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
	r.Events.Eventf(o, nil, corev1.EventTypeWarning, eventFailed, "Validate", "%s", eventtext.Fit(of.kind+" for "+name+": "+of.result.Problem.Detail))
}

// Limits of the record of an attempt in an order.
const (
	maxHops = 11
	maxHop  = 2048
)

// attempt returns the outcome in the form in which orders record it.
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

// thumbprint returns the thumbprint of an account's current key.
func (r *reconciler) thumbprint(ctx context.Context, name string) (string, error) {
	of, err := r.facts.Account(ctx, name)
	if err != nil || of.Account == nil {
		return "", errors.Join(err, fmt.Errorf("reading the account %s", name))
	}
	if problem := of.Problem(); problem != nil {
		return "", fmt.Errorf("the account %s is not valid: %s", name, problem.Detail)
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
