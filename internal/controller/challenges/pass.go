package challenges

import (
	"context"
	"fmt"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/challenge"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// maxSteps is the maximum number of steps in a pass. Passes end earlier unless there is a
// programming error.
const maxSteps = 10

// stepsTime is the time after which a pass begins no further step, so that the outcome of
// earlier steps is stored.
const stepsTime = time.Minute

// pass is the work on a Challenge until it waits for something.
type pass struct {
	*reconciler
	situation challenge.Situation
	// stored is the status in the API.
	stored acmev1.ChallengeStatus
	events []challenge.Event
	count  int // of steps
	// shown is true once the answer was presented in this pass.
	shown bool
	// gone is true once the finalizer was removed and the Challenge is deleted.
	gone bool
}

// run takes all due steps, and writes the status once. It returns only API errors.
func (p *pass) run(ctx context.Context) error {
	err := p.steps(ctx)
	if ctx.Err() != nil || apierrors.IsConflict(err) {
		return err
	}
	if written := p.write(ctx); err == nil {
		err = written
	}
	return err
}

// steps takes the steps. It stops after Start, so that clients see that the Challenge is
// processed, and after a final state, so that they see this state.
func (p *pass) steps(ctx context.Context) error {
	for begin := p.Clock.Now(); p.count < maxSteps && p.Clock.Since(begin) < stepsTime; p.count++ {
		p.situation.Now = p.Clock.Now()
		plan := p.situation.Next()
		if !plan.Due(p.situation.Now) || (plan.NeedsSlot && !p.slots.has(p.key())) {
			return nil
		}
		was := p.situation.Challenge.Status.State
		result, err := p.step(ctx, plan.Step)
		if err != nil || ctx.Err() != nil {
			return err
		}
		p.take(result)
		if plan.Step == challenge.Start || (!order.IsFinal(was) && order.IsFinal(result.Status.State)) {
			return nil
		}
	}
	return nil
}

func (p *pass) key() types.NamespacedName { return client.ObjectKeyFromObject(p.situation.Challenge) }

func (p *pass) take(r challenge.Result) {
	p.situation = p.situation.After(r)
	p.events = append(p.events, r.Events...)
}

// step takes one step. It returns only API errors.
func (p *pass) step(ctx context.Context, step challenge.Step) (challenge.Result, error) {
	switch step {
	case challenge.Start:
		return p.situation.Started(), nil
	case challenge.GiveUp:
		return p.situation.GivenUp(), nil
	case challenge.Delay:
		return p.situation.Delayed(), nil
	case challenge.Close:
		return p.situation.CleanedUp(), nil
	case challenge.CleanUp:
		return p.cleanUp(ctx)
	}
	issuer, err := p.issuer(ctx)
	if err != nil {
		return p.situation.IssuerMissing(err), nil
	}
	switch step {
	case challenge.Present:
		return p.present(ctx, issuer)
	case challenge.Check:
		return p.check(ctx, issuer)
	}
	ca, err := p.Clients(ctx, issuer)
	if err != nil {
		return p.situation.IssuerMissing(err), nil
	}
	result, err := p.ask(ctx, ca, step)
	if p.Suspect != nil && challenge.BlamesAccount(err) {
		p.Suspect(issuer)
	}
	return result, nil
}

// issuer returns the issuer of the Challenge. Its errors are for the user.
func (p *pass) issuer(ctx context.Context) (cmv1.GenericIssuer, error) {
	ref := p.situation.Challenge.Spec.IssuerRef
	kind := certmanager.IssuerKind(ref)
	issuer, err := certmanager.NewIssuer(kind)
	if err != nil || !certmanager.IsBuiltIn(ref) {
		return nil, fmt.Errorf("%s %q of group %q is not an issuer of cert-manager.io", kind, ref.Name, certmanager.IssuerGroup(ref))
	}
	err = p.objects.Get(ctx, types.NamespacedName(issuerOf(p.situation.Challenge)), issuer)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s %q does not exist", kind, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %q: %w", kind, ref.Name, err)
	}
	return issuer, nil
}

// write stores the status if it changed, and then records the events.
func (p *pass) write(ctx context.Context) error {
	ch := p.situation.Challenge
	if !p.gone && !apiequality.Semantic.DeepEqual(p.stored, ch.Status) {
		next := ch.DeepCopy()
		if err := p.Client.Status().Update(ctx, next, client.FieldOwner(Component)); err != nil {
			return fmt.Errorf("writing the status of the Challenge %s: %w", p.key(), err)
		}
		log.FromContext(ctx).Info("Challenge has changed", "domain", ch.Spec.DNSName, "type", ch.Spec.Type,
			"state", ch.Status.State, "presented", ch.Status.Presented, "reason", ch.Status.Reason)
		if !order.IsFinal(p.stored.State) && order.IsFinal(ch.Status.State) {
			p.Metrics.ChallengeEnded(string(ch.Spec.Type), string(ch.Status.State))
		}
	}
	p.tell(ch)
	return nil
}

func (p *pass) tell(ch *acmev1.Challenge) {
	if p.Events == nil {
		return
	}
	for _, event := range p.events {
		kind := corev1.EventTypeNormal
		if event.Warning {
			kind = corev1.EventTypeWarning
		}
		p.Events.Eventf(ch, nil, kind, event.Reason, "Solve", "%s", eventtext.Fit(event.Note))
	}
}
