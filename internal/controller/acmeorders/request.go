package acmeorders

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/account"
)

// made is a stored request.
type made struct {
	object   client.Object
	view     request.Request
	standing acmeorder.Standing
}

func newMade(object client.Object) *made {
	view, _ := request.From(object)
	return &made{object: object, view: view, standing: acmeorder.StandingOf(object)}
}

// trusted is how long after its name was stored a request is created without looking for it
// first: the API reports if it already exists.
const trusted = 5 * time.Minute

// stored returns the request of the order; nil if it does not exist or cannot exist yet.
func (p *pass) stored(ctx context.Context) (*made, error) {
	of := p.o.Status.Request
	switch {
	case of == nil:
		return nil, nil
	case of.UID != "":
		cached, err := p.read(ctx, p.cache)
		if err == nil && cached != nil && cached.object.GetUID() == of.UID {
			return cached, nil
		}
	case of.Named != nil && p.Clock.Since(of.Named.Time) < trusted:
		return nil, nil
	}
	return p.read(ctx, p.Client)
}

// read reads the request by its name.
func (p *pass) read(ctx context.Context, from client.Reader) (*made, error) {
	of := p.o.Status.Request
	k := requestkind.Named(v1alpha1.RequestKind(of.Kind))
	if k == nil || k.Decision == nil {
		return nil, fmt.Errorf("the order references a request of the kind %q", of.Kind)
	}
	object := k.New()
	if err := from.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return newMade(object), nil
}

// nameAgain stores the name of a request again if creating the request has failed for a
// long time: its order waits until it expires. The name is stored before the request is
// created.
func (p *pass) nameAgain(ctx context.Context, stored *made) error {
	if stored != nil || !p.set(acmeorder.NameAgain(p.o, p.Clock.Now())) {
		return nil
	}
	return p.write(ctx)
}

// request creates the request of the order, or adopts the one that an earlier attempt
// created. It returns nil if the order has ended.
func (p *pass) request(ctx context.Context, endpoint *acmeorder.Endpoint, before *made) (*made, error) {
	profile := endpoint.Profile(p.o.Spec.Profile)
	if profile == nil {
		p.refuse(acmeorder.ProfileGone(p.o))
		return nil, nil
	}
	of, err := p.facts.Account(ctx, p.o.Spec.Account)
	if err != nil {
		return nil, err
	}
	if of.Account == nil {
		p.refuse(acmeorder.AccountGone())
		return nil, nil
	}
	if problem := of.Problem(); problem != nil {
		p.refuse(problem)
		return nil, nil
	}
	if before != nil {
		return p.adopt(of, profile, before), nil
	}
	wanted, problem, err := p.wanted(of.Account, profile)
	if problem != nil {
		p.refuse(problem)
	}
	if wanted == nil || err != nil {
		return nil, err
	}
	return p.create(ctx, endpoint, of, profile, wanted)
}

// wanted returns the request to create. It uses the kind in the stored reference, if there
// is one: a changed profile must not lead to a second request.
func (p *pass) wanted(of *v1alpha1.AcmeAccount, profile *v1alpha1.AcmeProfile) (client.Object, *rfc8555.Problem, error) {
	if of := p.o.Status.Request; of != nil && of.Kind != acmeorder.Reference(p.o, profile).Kind {
		return nil, acmeorder.ProfileGone(p.o), nil
	}
	lifetime, problem := acmeorder.Lifetime(p.o, profile, p.Clock.Now())
	if problem != nil {
		return nil, problem, nil
	}
	if profile.Signer != nil {
		csr, err := acmeorder.SigningRequest(p.o, of, profile, lifetime)
		if err != nil {
			return nil, nil, err
		}
		return csr, nil, nil
	}
	cr, err := acmeorder.CertificateRequest(p.o, of, profile, lifetime)
	if err != nil {
		return nil, nil, err
	}
	return cr, nil, nil
}

// create creates the request as the account's ServiceAccount. The response may already
// contain the certificate.
func (p *pass) create(ctx context.Context, endpoint *acmeorder.Endpoint, of acmeorder.AccountFacts, profile *v1alpha1.AcmeProfile, wanted client.Object) (*made, error) {
	who := of.Account.Spec.ServiceAccount
	as, err := p.accounts.as(ctx, who)
	if err == nil {
		if err = as.Create(ctx, wanted, client.FieldOwner(Name)); apierrors.IsUnauthorized(err) {
			err = as.Create(ctx, wanted, client.FieldOwner(Name)) // with another token: that of an earlier account of this name was refused
		}
	}
	var missing *account.MissingError
	switch {
	case err == nil:
		log.FromContext(ctx).V(1).Info("Created the request of an order", "request", wanted.GetName(), "uid", wanted.GetUID(), "serviceAccount", who)
		return newMade(wanted), nil
	case apierrors.IsAlreadyExists(err):
		before, err := p.read(ctx, p.Client)
		if err != nil || before == nil {
			return nil, errors.Join(err, errGone)
		}
		return p.adopt(of, profile, before), nil
	case errors.As(err, &missing):
		p.accounts.forget(who)
		of.ServiceAccountGone = true
		p.refuse(of.Problem())
		return nil, nil
	}
	if problem := refusal(err); problem != nil {
		p.refuse(acmeorder.HideReason(problem, p.o, endpoint.Spec()))
		return nil, nil
	}
	return nil, fmt.Errorf("creating the request %s of the order: %w", wanted.GetName(), err)
}

var errGone = errors.New("the API reported an existing request with this name, which no longer exists")

// refusal returns the problem for an API error that ends the order; nil if creating the
// request should be tried again.
func refusal(err error) *rfc8555.Problem {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	return acmeorder.CreateRefused(int(status.Status().Code), status.Status().Message)
}

// adopt accepts an existing request with the order's name if its content is what this
// controller would create. Otherwise the order ends.
func (p *pass) adopt(of acmeorder.AccountFacts, profile *v1alpha1.AcmeProfile, before *made) *made {
	if err := acmeorder.CheckRequest(p.o, of.Account, profile, before.view, of.ServiceAccountUID); err != nil {
		problem := acmeorder.RequestTaken()
		p.refuse(problem)
		return nil
	}
	return before
}
