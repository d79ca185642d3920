package challenges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/challenge"
)

// call calls a solver or a CA with a time limit, because other Challenges wait for the
// worker.
func call[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return do(ctx)
}

// do is like call, for functions that return only an error.
func do(ctx context.Context, task solver.Task, what func(context.Context, solver.Task) error) error {
	_, err := call(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, what(ctx, task) })
	return err
}

// task returns the task of a solver.
func (p *pass) task(issuer cmv1.GenericIssuer) solver.Task {
	ch := p.situation.Challenge
	return solver.Task{
		Challenge: ch, Issuer: issuer, Secrets: p.secretsOf(ch), Where: ch.Annotations[challenge.Presented], Now: p.Clock.Now(),
	}
}

// present makes the answer available.
func (p *pass) present(ctx context.Context, issuer cmv1.GenericIssuer) (challenge.Result, error) {
	err, stored := p.show(ctx, issuer)
	switch {
	case stored != nil:
		return challenge.Result{}, stored
	case err != nil:
		return p.situation.PresentFailed(err), nil
	}
	return p.situation.Presented(), nil
}

// show stores the place of the answer and then presents it there. If the place has changed,
// the answer is first removed from the old one. failed is for the user; stored is an API
// error.
func (p *pass) show(ctx context.Context, issuer cmv1.GenericIssuer) (failed, stored error) {
	by, err := p.Solvers(p.situation.Challenge)
	if err != nil {
		return err, nil
	}
	task := p.task(issuer)
	where, err := call(ctx, func(ctx context.Context) (string, error) { return by.Prepare(ctx, task) })
	if err != nil {
		return err, nil
	}
	if task.Where != "" && task.Where != where {
		if err := do(ctx, task, by.CleanUp); err != nil {
			return fmt.Errorf("removing the answer from its former place: %w", err), nil
		}
	}
	if err := p.mark(ctx, where); err != nil {
		return nil, err
	}
	p.shown = true
	return do(ctx, p.task(issuer), by.Present), nil
}

// mark stores the place of the answer, and that it has to be removed at the end. It fails
// if the Challenge has changed.
func (p *pass) mark(ctx context.Context, where string) error {
	ch := p.situation.Challenge
	finalizers := challenge.WithFinalizer(ch)
	if slices.Equal(finalizers, ch.Finalizers) && ch.Annotations[challenge.Presented] == where {
		return nil
	}
	next := ch.DeepCopy()
	next.Finalizers = finalizers
	setPlace(next, where)
	return p.update(ctx, next)
}

func setPlace(ch *acmev1.Challenge, where string) {
	annotations := maps.Clone(ch.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if annotations[challenge.Presented] = where; where == "" {
		delete(annotations, challenge.Presented)
	}
	ch.Annotations = annotations
}

// update stores the metadata of the Challenge. The status is stored later.
func (p *pass) update(ctx context.Context, next *acmev1.Challenge) error {
	status := next.Status
	if err := p.Client.Update(ctx, next, client.FieldOwner(Component)); err != nil {
		return fmt.Errorf("updating the Challenge %s: %w", p.key(), err)
	}
	next.Status = status
	p.situation.Challenge = next
	return nil
}

// check runs the self check.
func (p *pass) check(ctx context.Context, issuer cmv1.GenericIssuer) (challenge.Result, error) {
	if !p.shown && p.situation.PresentAgain() {
		failed, stored := p.show(ctx, issuer)
		switch {
		case stored != nil:
			return challenge.Result{}, stored
		case failed != nil:
			return p.situation.CheckFailed(failed), nil
		}
	}
	by, err := p.Solvers(p.situation.Challenge)
	if err != nil {
		return p.situation.CheckFailed(err), nil
	}
	found, err := call(ctx, func(ctx context.Context) (solver.Found, error) { return by.Check(ctx, p.task(issuer)) })
	p.situation.Now = p.Clock.Now()
	if err != nil {
		return p.situation.CheckFailed(err), nil
	}
	return p.situation.Checked(found.Delay, found.Note), nil
}

// ask takes a step that queries the CA. It returns the CA's error; the result already takes
// it into account.
func (p *pass) ask(ctx context.Context, ca Client, step challenge.Step) (challenge.Result, error) {
	spec := p.situation.Challenge.Spec
	if step == challenge.Accept {
		answer, err := call(ctx, func(ctx context.Context) (rfc8555.Challenge, error) { return ca.Accept(ctx, spec.URL) })
		p.situation.Now = p.Clock.Now()
		if err != nil {
			return p.situation.CallFailed(step, limits(err)), err
		}
		return p.situation.AcceptedBy(answer), nil
	}
	authz, err := call(ctx, func(ctx context.Context) (rfc8555.Authorization, error) {
		return ca.Authorization(ctx, spec.AuthorizationURL)
	})
	p.situation.Now = p.Clock.Now()
	switch {
	case err != nil:
		return p.situation.CallFailed(step, limits(err)), err
	case step == challenge.Poll:
		return p.situation.Polled(authz), nil
	}
	return p.situation.HasRead(authz), nil
}

// cleanUp removes what was presented, then the finalizers.
func (p *pass) cleanUp(ctx context.Context) (challenge.Result, error) {
	result := p.situation.CleanedUp()
	if err := p.remove(ctx); err != nil {
		if ctx.Err() != nil {
			return result, nil // the pass ends without a result
		}
		p.situation.Now = p.Clock.Now()
		failed, abandon := p.situation.CleanUpFailed(err, p.hopeless(ctx, err))
		if !abandon {
			return failed, nil
		}
		result = failed
	}
	return result, p.release(ctx)
}

// remove makes the solver remove the presented answer.
func (p *pass) remove(ctx context.Context) error {
	by, err := p.Solvers(p.situation.Challenge)
	if err != nil {
		return err
	}
	issuer, err := p.issuer(ctx)
	if err != nil {
		issuer = nil // the solver may not need it
	}
	return do(ctx, p.task(issuer), by.CleanUp)
}

// release removes the finalizers, which completes a pending deletion.
func (p *pass) release(ctx context.Context) error {
	next := p.situation.Challenge.DeepCopy()
	next.Finalizers = challenge.WithoutFinalizer(next)
	setPlace(next, "")
	gone := next.DeletionTimestamp != nil && len(next.Finalizers) == 0
	err := p.update(ctx, next)
	if gone && (err == nil || apierrors.IsNotFound(err)) {
		p.gone = true
		return nil
	}
	return err
}

// hopeless reports whether a clean-up can never succeed, because an object that it needs,
// such as a Secret, was removed with its namespace.
func (p *pass) hopeless(ctx context.Context, err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	namespace := &corev1.Namespace{}
	if err := p.Client.Get(ctx, types.NamespacedName{Name: p.secretsOf(p.situation.Challenge)}, namespace); err != nil {
		return apierrors.IsNotFound(err)
	}
	return namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating
}

// limits converts an error into the form that decisions use.
func limits(err error) error {
	var limited *acme.LimitedError
	if errors.As(err, &limited) {
		return &challenge.Limited{Until: limited.Until, What: limited.Limit, Detail: limited.Detail}
	}
	return err
}
