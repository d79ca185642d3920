package acmeserver

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/keylock"
)

// orders makes, finalizes and shows orders.
type orders struct {
	store     *store
	reviews   *reviews
	events    eventRecorder
	finishing *finishing
	limited   *prometheus.CounterVec // requests over a limit, by its name
	// ordering are the locks of accounts that order.
	ordering keylock.Locks
	// announced holds the latest orders of accounts, []v1alpha1.AcmeNewOrder by their names, if
	// sole is set: no other process makes orders.
	announced *lru.Cache
	sole      bool
	atOnce    *atOnce
	// policies is Config.RefusedByPolicy, signer is Config.Signer.
	policies func(context.Context, acmeorder.Planned) *rfc8555.Problem
	signer   func(ctx context.Context, profile *v1alpha1.AcmeProfile, namespace string) (acmeorder.SignerFacts, error)
	now      func() time.Time
}

// orderResource answers with an order (RFC 8555 section 7.4).
func (s *orders) orderResource(c *call) (*answer, error) {
	if !c.message.IsPostAsGet() {
		return nil, payloadNotEmpty()
	}
	o, err := s.store.ownOrder(c)
	if err != nil {
		return nil, err
	}
	return s.orderAnswer(c, o), nil
}

func (s *orders) orderAnswer(c *call, o *v1alpha1.AcmeOrder) *answer {
	c.now = s.now()
	a := ok(c.orderView(o))
	a.location = c.url("order", o.Name)
	if acmeorder.OrderState(o, c.now) == rfc8555.StateProcessing {
		a.retryAfter = acmeorder.RetryAfter(o, c.now)
	}
	return a
}
