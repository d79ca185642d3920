package policies

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// ofOrder returns whether an order of an ACME client proves a request. The fact is not
// known while the objects of the order cannot be read.
func (f *Facts) ofOrder(ctx context.Context, r *request.Request) certpolicy.Facts {
	origin, found := v1alpha1.OriginDirect, certpolicy.Facts{Owner: certpolicy.Known[metav1.ObjectMeta](nil)}
	order, err := f.Orders.Of(ctx, r)
	if err != nil {
		f.failed(ctx, err, "Cannot read the AcmeOrder of a request", "request", r.Name)
		return found
	}
	if order != nil {
		origin = v1alpha1.OriginACME
	}
	found.Origin, found.Order = certpolicy.Known(&origin), order
	return found
}

// Orders finds the orders of ACME clients that requests were made for. It is safe for
// concurrent use.
type Orders struct {
	facts *facts.Facts
	now   func() time.Time
}

// NewOrders returns the orders of a reader. For decisions, the reader must read from
// the API, because an account may just have been revoked.
func NewOrders(objects client.Reader, now func() time.Time) *Orders {
	return &Orders{facts.New(objects), now}
}

// Of returns the order that proves a request; nil if there is none, or without Orders.
func (s *Orders) Of(ctx context.Context, r *request.Request) (*v1alpha1.ProvenOrder, error) {
	proof, err := s.proof(ctx, r)
	if proof == nil || err != nil {
		return nil, err
	}
	if proof.NeedsEndpoint() {
		if proof.Endpoint, err = s.facts.Endpoint(ctx, proof.Order.Spec.Endpoint); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return proof.Of(*r, s.now()), nil
}

// proof returns the order that a request can be of, with its account; nil if there is
// none.
func (s *Orders) proof(ctx context.Context, r *request.Request) (*acmeorder.Proof, error) {
	key, possible := acmeorder.OrderKeyOf(r.Requester.Username, r.Namespace, r.Name)
	if s == nil || !possible {
		return nil, nil
	}
	o, err := s.facts.Order(ctx, key)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	proof := &acmeorder.Proof{Order: o}
	if proof.Account, err = s.facts.Account(ctx, o.Spec.Account); err != nil {
		return nil, err
	}
	return proof, nil
}

// Orders returns the orders of ACME clients; nil without Policies.
func (p *Policies) Orders() *Orders {
	if p == nil {
		return nil
	}
	return p.facts.Orders
}

// Terms returns the ACME order that proves a request, if the approval by a person
// may count for later orders; nil otherwise. If the order cannot be
// read, the approval counts for this request alone.
func (s *Orders) Terms(ctx context.Context, r request.Request, who quorum.Voter) *request.OrderTerms {
	if s == nil || !who.IsPerson(r.Requester) {
		return nil
	}
	terms, err := s.terms(ctx, &r)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot read the AcmeOrder of a request; its approval does not count for later orders", "request", r.Name)
	}
	return terms
}

func (s *Orders) terms(ctx context.Context, r *request.Request) (*request.OrderTerms, error) {
	proof, err := s.proof(ctx, r)
	if proof == nil || err != nil {
		return nil, err
	}
	if proof.Endpoint, err = s.facts.Endpoint(ctx, proof.Order.Spec.Endpoint); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return proof.Terms(*r, s.now()), nil
}
