package acmeserver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/identifier"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// orderRequest is the payload of a newOrder request (RFC 8555 section 7.4).
type orderRequest struct {
	Identifiers []rfc8555.Identifier `json:"identifiers"`
	NotBefore   string               `json:"notBefore"`
	NotAfter    string               `json:"notAfter"`
	Profile     string               `json:"profile"`
	Replaces    string               `json:"replaces"`
}

// newOrder creates an order, or answers with an equal order that is not finalized yet.
func (s *orders) newOrder(c *call) (*answer, error) {
	n, err := readOrder(c)
	if err != nil {
		return nil, err
	}
	if err := s.reviews.demandUse(c.ctx, c.account.Spec.ServiceAccount, c.endpointName); err != nil {
		s.events.refusedBy(c.account, "Order", err)
		return nil, err
	}
	release, err := s.ordering.Lock(c.ctx, c.account.Name) // a client may order much at once
	if err != nil {
		return nil, errBusy
	}
	defer release()
	name := newID()
	for range maxTries {
		admitted, again, err := s.announce(c, &n, name)
		if err != nil {
			return nil, err
		}
		if again != nil {
			return s.ordered(c, again), nil
		}
		switch err := s.reserve(c, n.Replaced, name); {
		case apierrors.IsConflict(err):
			continue
		case err != nil:
			return nil, err
		}
		o, err := s.makeOrder(c, admitted, name)
		if err != nil {
			return nil, err
		}
		return s.ordered(c, o), nil
	}
	return nil, errBusy
}

// announce decides about the order, and records it in the account, so that the limits of
// the account apply at all servers, also before their caches contain the order; a server
// without others remembers the order instead. It returns an equivalent existing order instead
// if there is one.
func (s *orders) announce(c *call, n *acmeorder.NewOrder, name string) (admitted *acmeorder.Admitted, again *v1alpha1.AcmeOrder, err error) {
	facts := acmeorder.OrderFacts{AccountFacts: c.facts, Help: c.helpURL(c.account.Name)}
	account, err := s.store.changeAccount(c.ctx, c.account.Name, func(a *v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error) {
		cached, err := s.store.ordersOf(c.ctx, a)
		if err != nil {
			return nil, err
		}
		if latest, ok := s.announced.Get(a.Name); ok {
			a.Status.NewOrders = latest.([]v1alpha1.AcmeNewOrder)
		}
		facts.Account, facts.Orders = a, acmeorder.WithAnnounced(cached, a, name, c.now)
		facts.Limited = acmeorder.CheckFailedValidations(c.endpoint.Spec(), facts.Orders, n.Identifiers, c.now)
		if admitted, err = s.admit(c, n, facts); err != nil {
			return nil, err
		}
		if again = s.reuse(c, admitted.Reuse); again != nil {
			return nil, nil
		}
		status := acmeorder.Announce(a, name, n.Replaces != "", c.now)
		if s.sole {
			s.announced.Add(a.Name, status.NewOrders)
			if a.Status.Ordered && acmeorder.Seen(a, c.now) == nil {
				return nil, nil
			}
		}
		return status, nil
	})
	if err != nil {
		return nil, nil, err
	}
	c.account = account
	return admitted, again, nil
}

// ordered is the answer to a newOrder request: 201 also for an order that was there,
// since clients insist on it.
func (s *orders) ordered(c *call, o *v1alpha1.AcmeOrder) *answer {
	c.order = o.Name
	return &answer{status: http.StatusCreated, body: c.orderView(o), location: c.url("order", o.Name)}
}

func readOrder(c *call) (acmeorder.NewOrder, error) {
	var asked orderRequest
	if p := c.message.Decode(&asked); p != nil {
		return acmeorder.NewOrder{}, p
	}
	n := acmeorder.NewOrder{Profile: asked.Profile, Replaces: asked.Replaces, Address: addressText(c.address)}
	most := int(c.endpoint.Spec().Identifiers.MaxPerOrder)
	if len(asked.Identifiers) == 0 {
		return n, malformed("an order needs identifiers")
	}
	if len(asked.Identifiers) > 2*most {
		return n, malformed("%d identifiers are more than the %d that an order may have", len(asked.Identifiers), most)
	}
	var p *rfc8555.Problem
	if n.Identifiers, p = identifier.NormalizeAll(asked.Identifiers); p != nil {
		return n, p
	}
	for _, date := range []struct {
		name, text string
		into       *time.Time
	}{{"notBefore", asked.NotBefore, &n.NotBefore}, {"notAfter", asked.NotAfter, &n.NotAfter}} {
		if date.text == "" {
			continue
		}
		parsed, err := time.Parse(time.RFC3339, date.text)
		if err != nil {
			return n, malformed("%s is not a time of RFC 3339: %s", date.name, rfc8555.Quote(date.text))
		}
		*date.into = parsed
	}
	return n, nil
}

// admit decides about the order with the stored state of the certificate that it replaces.
func (s *orders) admit(c *call, n *acmeorder.NewOrder, facts acmeorder.OrderFacts) (*acmeorder.Admitted, error) {
	if n.Replaced, n.Replacement = nil, nil; n.Replaces != "" {
		var err error
		if n.Replaced, err = s.store.issued(c.ctx, c.endpointName, byCertID, n.Replaces); err != nil {
			return nil, err
		}
		if old := n.Replaced; old != nil && old.Status.ReplacedBy != "" {
			n.Replacement, err = s.store.order(c.ctx, old.Namespace, old.Status.ReplacedBy)
			if p := new(rfc8555.Problem); errors.As(err, &p) { // there is none
				n.Replacement, err = nil, nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
	admitted, p := c.endpoint.AdmitOrder(*n, facts, c.now)
	if p == nil {
		p = s.refusedByPolicy(c, admitted.Planned())
	}
	if p != nil {
		if p.HasType(rfc8555.ProblemRateLimited) {
			s.limited.WithLabelValues("orders").Inc()
		}
		s.events.refused(c.account, "Order", p)
		return nil, p
	}
	return admitted, nil
}

// refusedByPolicy returns the problem of an order that certificate policies forbid.
func (s *orders) refusedByPolicy(c *call, planned acmeorder.Planned) *rfc8555.Problem {
	if s.policies == nil {
		return nil
	}
	return acmeorder.HideReason(s.policies(c.ctx, planned), planned.Order, c.endpoint.Spec())
}

// reuse returns the stored state of an order if it can still be proven or finalized.
func (s *orders) reuse(c *call, cached *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrder {
	if cached == nil {
		return nil
	}
	o, err := s.store.order(c.ctx, cached.Namespace, cached.Name)
	if err != nil {
		return nil // a new one is made
	}
	switch acmeorder.OrderState(o, c.now) {
	case rfc8555.StatePending, rfc8555.StateReady:
		return o
	}
	return nil
}

// reserve notes on an order that another one replaces its certificate, before that is
// made: of two, one is.
func (s *orders) reserve(c *call, old *v1alpha1.AcmeOrder, name string) error {
	if old == nil {
		return nil
	}
	changed := old.DeepCopy()
	changed.Status = *acmeorder.Replace(old, name, c.now)
	return s.store.live.Status().Update(c.ctx, changed)
}

func (s *orders) makeOrder(c *call, admitted *acmeorder.Admitted, name string) (*v1alpha1.AcmeOrder, error) {
	o := admitted.Build(name, newToken(), c.now)
	status := o.Status
	if err := s.store.live.Create(c.ctx, o); err != nil {
		return nil, fmt.Errorf("making the order: %w", err)
	}
	if len(o.Status.Authorizations) > 0 {
		return o, nil // certplane's API creates orders with their status
	}
	o.Status = status
	if err := s.store.live.Status().Update(c.ctx, o); err != nil {
		return nil, fmt.Errorf("making the order: %w", err)
	}
	return o, nil
}
