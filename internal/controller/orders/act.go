//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

package orders

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/order"
)

// act takes a step and returns what is next. Its errors are API errors.
func (p *pass) act(ctx context.Context, step order.Step) (order.Step, error) {
	switch step.Action {
	case order.None:
		return step, p.deleteChallenges(ctx, step.Delete)
	case order.Await, order.End:
		return step, nil
	case order.Plan:
		return step, p.plan(ctx, step)
	case order.Explain:
		return p.explain(ctx), nil
	}
	err := p.ask(ctx, step.Action)
	var ended *endError
	switch {
	case errors.As(err, &ended):
		return order.Step{Action: order.End, State: acmev1.Errored, Reason: ended.Error()}, nil
	case err != nil:
		return p.failed(ctx, step.Action, err), nil
	}
	return order.Next(p.situation()), nil
}

// endError is why an Order ends although the CA has not refused it.
type endError struct{ error }

// failed returns what is next after a request to the CA that has failed.
func (p *pass) failed(ctx context.Context, action order.Action, err error) order.Step {
	if ctx.Err() == nil {
		log.FromContext(ctx).Info("The CA did not complete a step of an Order", "action", action, "why", err.Error())
	}
	f := faultOf(err)
	p.problem = f.Problem
	ready := certmanager.IssuerIs(p.issuer, cmv1.IssuerConditionReady)
	step := p.memory.Failed(action, f, ready, p.Clock.Now())
	if f.Problem != nil && order.Judge(f.Problem) == order.IssuersFault && p.Suspect != nil {
		p.Suspect(p.issuer)
	}
	if step.Action == order.Await {
		return order.Next(p.situation()) // with the deadline
	}
	return step
}

// ask makes the request to the CA that an action consists of, and writes the
// answer into the status.
func (p *pass) ask(ctx context.Context, action order.Action) error {
	switch action {
	case order.Create:
		return p.create(ctx)
	case order.Read:
		said, err := p.ca.Order(ctx, p.now.Status.URL)
		return p.observe(said, err)
	case order.ReadAuthorizations:
		return p.readAuthorizations(ctx)
	case order.Recheck:
		return p.recheck(ctx)
	case order.Finalize:
		return p.finalize(ctx)
	case order.Download:
		return p.download(ctx)
	}
	return fmt.Errorf("the action %s is unknown", action)
}

func (p *pass) create(ctx context.Context) error {
	if p.memory.Faults == 0 {
		for _, doubt := range order.Doubts(p.was, p.issuer.GetSpec().ACME) {
			p.event(corev1.EventTypeWarning, "Doubtful", "The CA will probably refuse the order: "+doubt)
		}
	}
	want := order.NewOrder(p.was.Spec, p.Clock.Now())
	said, err := p.ca.NewOrder(ctx, want)
	if err == nil {
		p.warn(ctx, want)
	}
	if err == nil && said.URL == "" {
		err = errors.New("the CA's response does not contain the URL of the new order")
	}
	return p.observe(said, err)
}

// warn tells users about a limit before the CA does, and what uses it up.
func (p *pass) warn(ctx context.Context, placed rfc8555.OrderRequest) {
	if near := p.ca.NearLimit(placed); near != "" {
		p.event(corev1.EventTypeWarning, "LimitNear", near)
	}
	same := &acmev1.OrderList{}
	if err := p.cache.List(ctx, same, client.MatchingFields{byNames: order.NamesKey(p.was)}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).V(1).Info("Cannot list the Orders with the same names", "why", err.Error())
		return
	}
	if text := order.Duplicates(p.was, same.Items); text != "" {
		p.event(corev1.EventTypeWarning, "DuplicateCertificate", text)
	}
}

// observe records an answer of the CA about the order.
func (p *pass) observe(said rfc8555.Order, err error) error {
	if err != nil {
		return err
	}
	p.memory.Answered(said, p.Clock.Now())
	order.Observe(&p.now.Status, said)
	return nil
}

// maxRead is the maximum number of authorizations that are read in one pass. The others are
// read in the next, so that what was read is stored.
const maxRead = 20

func (p *pass) readAuthorizations(ctx context.Context) error {
	read := 0
	for i, a := range p.now.Status.Authorizations {
		if a.Identifier != "" || read == maxRead {
			continue
		}
		said, err := p.ca.Authorization(ctx, a.URL)
		if err != nil {
			return err
		}
		if err := order.CheckAuthorization(p.was.Spec, said); err != nil {
			return &endError{fmt.Errorf("Failed to fetch authorization: %w", err)}
		}
		p.now.Status.Authorizations[i] = order.Authorization(a.URL, said)
		read++
	}
	p.memory.Succeeded()
	return nil
}

// recheck reads all authorizations again. The status keeps what they were first:
// what they are now is remembered.
func (p *pass) recheck(ctx context.Context) error {
	read := map[string]rfc8555.Authorization{}
	for _, a := range p.now.Status.Authorizations {
		said, err := p.ca.Authorization(ctx, a.URL)
		if err != nil {
			return err
		}
		if err := order.CheckAuthorization(p.was.Spec, said); err != nil {
			return &endError{fmt.Errorf("Failed to fetch authorization: %w", err)}
		}
		read[a.URL] = said
	}
	faults := p.memory.Faults // the CA may refuse again
	p.memory.Succeeded()
	p.memory.Authorizations, p.memory.Recheck, p.memory.Order, p.memory.Faults = read, false, nil, faults
	return nil
}

func (p *pass) finalize(ctx context.Context) error {
	csr, err := csrOf(p.was.Spec.Request)
	if err != nil {
		return &endError{fmt.Errorf("Failed to finalize Order: %w", err)}
	}
	said, err := p.ca.Finalize(ctx, p.now.Status.FinalizeURL, p.now.Status.URL, csr)
	return p.observe(said, err)
}

// csrOf returns spec.request as DER: it is PEM, or DER already.
func csrOf(data []byte) ([]byte, error) {
	if block, _ := pem.Decode(data); block != nil && block.Type == pki.RequestBlockType {
		data = block.Bytes
	}
	if _, err := pki.ParseRequestDER(data); err != nil {
		return nil, fmt.Errorf("parsing spec.request: %w", err)
	}
	return data, nil
}

// maxExplain is how many times in a row the query for the reason of an invalid order may
// fail.
const maxExplain = 3

// isTemporary reports whether a request that has failed can succeed later.
func isTemporary(f order.Fault) bool {
	if f.Problem == nil {
		return !f.Permanent
	}
	verdict := order.Judge(f.Problem)
	return verdict == order.Retry || verdict == order.Wait
}

// explain ends an Order whose order is invalid, with the CA's explanation.
func (p *pass) explain(ctx context.Context) order.Step {
	var read []rfc8555.Authorization
	for _, a := range p.now.Status.Authorizations {
		if p.memory.Order.Error != nil || len(read) == maxRead {
			break
		}
		said, err := p.ca.Authorization(ctx, a.URL)
		if err != nil {
			log.FromContext(ctx).Info("Cannot read an authorization of an order that is invalid", "why", err.Error())
			if f := faultOf(err); isTemporary(f) && p.memory.Faults < maxExplain {
				p.memory.Failed(order.Explain, f, false, p.Clock.Now())
				return order.Next(p.situation())
			}
			break
		}
		read = append(read, said)
	}
	p.problem = order.Cause(*p.memory.Order, read)
	return order.Invalidated(*p.memory.Order, read, p.challenges)
}

// plan creates and deletes Challenges.
func (p *pass) plan(ctx context.Context, step order.Step) error {
	for _, needs := range step.Create {
		challenge := needs.Challenge
		challenge.Spec.Key = order.Key(challenge.Spec, p.ca.KeyAuthorization)
		err := p.Client.Create(ctx, challenge, client.FieldOwner(Component))
		switch {
		case apierrors.IsAlreadyExists(err): // the cache does not show it yet
		case err != nil:
			return fmt.Errorf("creating the Challenge for %s: %w", needs.Domain, err)
		default:
			p.event(corev1.EventTypeNormal, "Created", fmt.Sprintf("Created Challenge resource %q for domain %q", challenge.Name, challenge.Spec.DNSName))
		}
	}
	return p.deleteChallenges(ctx, step.Delete)
}

func (p *pass) deleteChallenges(ctx context.Context, challenges []*acmev1.Challenge) error {
	for _, c := range challenges {
		if c.DeletionTimestamp != nil {
			continue
		}
		uid := c.UID
		err := p.Client.Delete(ctx, c, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting the Challenge %s: %w", c.Name, err)
		}
	}
	return nil
}

// maxDeactivated is the maximum number of authorizations of an Order that are deactivated:
// it is only a courtesy to the CA.
const maxDeactivated = 20

// cleanUp deletes the Challenges of a failed Order and deactivates its authorizations. The
// Challenges are deleted first: they would fail with their authorizations.
func (p *pass) cleanUp(ctx context.Context, end order.Step) error {
	if err := p.deleteChallenges(ctx, end.Delete); err != nil {
		return err
	}
	for i, url := range end.Deactivate {
		if p.ca == nil || i == maxDeactivated {
			return nil
		}
		if err := p.ca.DeactivateAuthorization(ctx, url); err != nil {
			log.FromContext(ctx).Info("Cannot deactivate an authorization of a failed Order", "url", url, "why", err.Error())
			return nil
		}
	}
	return nil
}
