package acmeserver

import (
	"strconv"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// authorizations shows and deactivates authorizations, and has challenges tried.
type authorizations struct {
	store    *store
	attempts *attempts.Desk
}

// find returns the order that a path is about, and where in it.
func (s *authorizations) find(c *call) (*v1alpha1.AcmeOrder, acmeorder.Position, error) {
	o, err := s.store.ownOrder(c)
	if err != nil {
		return nil, acmeorder.Position{}, err
	}
	at, err := c.position(o)
	return o, at, err
}

// authzResource answers with an authorization, or deactivates it (RFC 8555 section
// 7.5).
func (s *authorizations) authzResource(c *call) (*answer, error) {
	o, at, err := s.find(c)
	if err != nil {
		return nil, err
	}
	if !c.message.IsPostAsGet() {
		if o, err = s.deactivate(c, at.Authorization); err != nil {
			return nil, err
		}
	}
	a := ok(c.authorizationView(o, at.Authorization))
	for i := range o.Status.Authorizations[at.Authorization].Challenges {
		if acmeorder.AuthorizationState(&o.Status.Authorizations[at.Authorization], c.now) == rfc8555.StatePending {
			a.retryAfter = max(a.retryAfter, validationRetry(&o.Status.Authorizations[at.Authorization].Challenges[i], c.now))
		}
	}
	return a, nil
}

func (s *authorizations) deactivate(c *call, authorization int) (*v1alpha1.AcmeOrder, error) {
	var asked struct {
		Status string `json:"status"`
	}
	if p := c.message.Decode(&asked); p != nil {
		return nil, p
	}
	if asked.Status != rfc8555.StateDeactivated {
		return nil, malformed("an authorization can be deactivated, and nothing else")
	}
	proof := false
	o, err := s.store.changeOwnOrder(c, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		proof = o.Status.Authorizations[authorization].State == rfc8555.StateValid
		return acmeorder.DeactivateAuthorization(o, authorization, c.now), nil
	})
	if err == nil && proof {
		s.deactivateProof(c, &o.Status.Authorizations[authorization])
	}
	return o, err
}

// deactivateProof deactivates what other orders have taken over of a proof.
func (s *authorizations) deactivateProof(c *call, of *v1alpha1.AcmeAuthorization) {
	if of.Origin == v1alpha1.AcmeOriginPreauthorized {
		return
	}
	orders, err := s.store.ordersOf(c.ctx, c.account)
	if err != nil {
		klog.FromContext(c.ctx).Error(err, "Cannot deactivate the authorizations of other orders", "account", c.account.Name)
		return
	}
	for _, other := range orders {
		if other.Name == c.order || acmeorder.DeactivateProof(other, of, c.now) == nil {
			continue
		}
		read := func() (*v1alpha1.AcmeOrder, error) { return s.store.order(c.ctx, other.Namespace, other.Name) }
		_, err := s.store.changeOrder(c.ctx, read, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
			return acmeorder.DeactivateProof(o, of, c.now), nil
		})
		if err != nil {
			klog.FromContext(c.ctx).Error(err, "Cannot deactivate the authorization of another order", "order", other.Name)
		}
	}
}

// challengeResource answers with a challenge, or has it tried (RFC 8555 section
// 7.5.1).
func (s *authorizations) challengeResource(c *call) (*answer, error) {
	o, at, err := s.find(c)
	if err != nil {
		return nil, err
	}
	if !c.message.IsPostAsGet() {
		if o, err = s.start(c, at); err != nil {
			return nil, err
		}
	}
	a := ok(c.challengeView(o, at))
	a.links = append(a.links, link(c.url("authz", o.Name, strconv.Itoa(at.Authorization)), "up"))
	a.retryAfter = validationRetry(&o.Status.Authorizations[at.Authorization].Challenges[at.Challenge], c.now)
	return a, nil
}

// start starts the validation of a challenge. It ignores the members of the payload: some
// clients send those of earlier drafts.
func (s *authorizations) start(c *call, at acmeorder.Position) (*v1alpha1.AcmeOrder, error) {
	var ignored struct{}
	if p := c.message.Decode(&ignored); p != nil {
		return nil, p
	}
	var outcome *attempts.Outcome
	asked := false
	o, err := s.store.changeOwnOrder(c, func(o *v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error) {
		if acmeorder.AuthorizationState(&o.Status.Authorizations[at.Authorization], c.now) == rfc8555.StateExpired {
			return nil, notFound()
		}
		started := acmeorder.StartChallenge(o, at, c.endpoint.Spec().Challenges.Attempts, c.now)
		if started == nil {
			return nil, nil
		}
		trying := *o
		trying.Status = *started
		if !asked { // others may change the order meanwhile: then the outcome is recorded again
			asked = true
			outcome = s.attempts.Begin(&trying, at).Wait(c.r.Context(), attemptWait)
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
