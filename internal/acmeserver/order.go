package acmeserver

import (
	"strconv"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acmeserver/attempts"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// ownOrder returns the order in the URL as it is stored. One of another account is
// like one that does not exist.
func (x *exchange) ownOrder() (*v1alpha1.AcmeOrder, error) {
	o, err := x.store.order(x.ctx, x.account.Spec.ServiceAccount.Namespace, x.args[0])
	if err != nil {
		return nil, err
	}
	if o.Spec.Account != x.account.Name || o.Spec.Endpoint != x.endpointName {
		return nil, notFound()
	}
	x.order = o.Name
	return o, nil
}

// orderResource answers with an order (RFC 8555 section 7.4).
func (x *exchange) orderResource() (*answer, error) {
	if !x.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	o, err := x.ownOrder()
	if err != nil {
		return nil, err
	}
	return x.orderAnswer(o), nil
}

func (x *exchange) orderAnswer(o *v1alpha1.AcmeOrder) *answer {
	x.now = x.Now()
	a := ok(x.orderView(o))
	a.location = x.url("order", o.Name)
	if acmeorder.OrderState(o, x.now) == rfc8555.StateProcessing {
		a.retryAfter = acmeorder.RetryAfter(o, x.now)
	}
	return a
}

// position returns where in its order the authorization or challenge of the URL is.
func (x *exchange) position(o *v1alpha1.AcmeOrder) (at acmeorder.Position, err error) {
	all := []int{len(o.Status.Authorizations)}
	into := []*int{&at.Authorization, &at.Challenge}
	for i, text := range x.args[1:] {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= all[i] || strconv.Itoa(n) != text {
			return at, notFound()
		}
		*into[i] = n
		if i == 0 {
			all = append(all, len(o.Status.Authorizations[n].Challenges))
		}
	}
	return at, nil
}

// authzResource answers with an authorization, or deactivates it (RFC 8555 section
// 7.5).
func (x *exchange) authzResource() (*answer, error) {
	o, err := x.ownOrder()
	if err != nil {
		return nil, err
	}
	at, err := x.position(o)
	if err != nil {
		return nil, err
	}
	if !x.message.IsPostAsGet() {
		if o, err = x.deactivate(at.Authorization); err != nil {
			return nil, err
		}
	}
	a := ok(x.authorizationView(o, at.Authorization))
	for i := range o.Status.Authorizations[at.Authorization].Challenges {
		if acmeorder.AuthorizationState(&o.Status.Authorizations[at.Authorization], x.now) == rfc8555.StatePending {
			a.retryAfter = max(a.retryAfter, validationRetry(&o.Status.Authorizations[at.Authorization].Challenges[i], x.now))
		}
	}
	return a, nil
}

func (x *exchange) deactivate(authorization int) (*v1alpha1.AcmeOrder, error) {
	var asked struct {
		Status string `json:"status"`
	}
	if p := x.message.Decode(&asked); p != nil {
		return nil, p
	}
	if asked.Status != rfc8555.StateDeactivated {
		return nil, malformed("an authorization can be deactivated, and nothing else")
	}
	proof := false
	o, err := x.store.changeOrder(x.ctx, x.ownOrder, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		proof = o.Status.Authorizations[authorization].State == rfc8555.StateValid
		return acmeorder.DeactivateAuthorization(o, authorization, x.now), nil
	})
	if err == nil && proof {
		x.deactivateProof(&o.Status.Authorizations[authorization])
	}
	return o, err
}

// deactivateProof deactivates what other orders have taken over of a proof.
func (x *exchange) deactivateProof(of *v1alpha1.AcmeAuthorization) {
	if of.Origin == v1alpha1.AcmeOriginPreauthorized {
		return
	}
	orders, err := x.store.ordersOf(x.ctx, x.account)
	if err != nil {
		klog.FromContext(x.ctx).Error(err, "Cannot deactivate the authorizations of other orders", "account", x.account.Name)
		return
	}
	for _, other := range orders {
		if other.Name == x.order || acmeorder.DeactivateProof(other, of, x.now) == nil {
			continue
		}
		read := func() (*v1alpha1.AcmeOrder, error) { return x.store.order(x.ctx, other.Namespace, other.Name) }
		_, err := x.store.changeOrder(x.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
			return acmeorder.DeactivateProof(o, of, x.now), nil
		})
		if err != nil {
			klog.FromContext(x.ctx).Error(err, "Cannot deactivate the authorization of another order", "order", other.Name)
		}
	}
}

// challengeResource answers with a challenge, or has it tried (RFC 8555 section
// 7.5.1).
func (x *exchange) challengeResource() (*answer, error) {
	o, err := x.ownOrder()
	if err != nil {
		return nil, err
	}
	at, err := x.position(o)
	if err != nil {
		return nil, err
	}
	if !x.message.IsPostAsGet() {
		if o, err = x.start(at); err != nil {
			return nil, err
		}
	}
	a := ok(x.challengeView(o, at))
	a.links = append(a.links, link(x.url("authz", o.Name, strconv.Itoa(at.Authorization)), "up"))
	a.retryAfter = validationRetry(&o.Status.Authorizations[at.Authorization].Challenges[at.Challenge], x.now)
	return a, nil
}

// start has a challenge tried. The members of the payload do not count: some clients
// send those of earlier drafts.
func (x *exchange) start(at acmeorder.Position) (*v1alpha1.AcmeOrder, error) {
	var ignored struct{}
	if p := x.message.Decode(&ignored); p != nil {
		return nil, p
	}
	var outcome *attempts.Outcome
	asked := false
	o, err := x.store.changeOrder(x.ctx, x.ownOrder, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		if acmeorder.AuthorizationState(&o.Status.Authorizations[at.Authorization], x.now) == rfc8555.StateExpired {
			return nil, notFound()
		}
		started := acmeorder.StartChallenge(o, at, x.endpoint.Spec().Challenges.Attempts, x.now)
		if started == nil {
			return nil, nil
		}
		trying := *o
		trying.Status = *started
		if !asked { // others may change the order meanwhile: then the outcome is recorded again
			asked = true
			outcome = x.Attempts.Begin(&trying, at).Wait(x.r.Context(), attemptWait)
		}
		if outcome != nil {
			if tried := outcome.Record(&trying); tried != nil {
				return tried, nil
			}
		}
		return started, nil
	})
	if outcome != nil {
		if err != nil {
			o = nil
		}
		outcome.Stored(o)
	}
	return o, err
}

// attemptWait is how long a client that wants a challenge tried waits for the first
// attempt. A host on the same network answers within it.
const attemptWait = 250 * time.Millisecond
