package policies

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Published looks up facts for decisions in programs outside of the server. It reads the
// objects that its user may read, and the keys and counts that the server publishes. It is
// safe for concurrent use if its fields are.
type Published struct {
	// Objects reads all objects that facts come from.
	Objects client.Reader
	Access  AccessFunc
	// Controllers are the users whose requests can be for Certificates.
	Controllers []string
	// SealKeys returns the public keys that verify approvals. It is called at most once.
	// Nil means that the keys are not known.
	SealKeys func(context.Context) ([]ed25519.PublicKey, error)
	// Ledger reads how much of quotas is used; nil if that is not known.
	Ledger *LedgerReader
	// RequestsUnknown is set if the stored requests are not known, as without a server.
	RequestsUnknown bool
	// Failed, if not nil, is called with the error of each object that cannot be read,
	// and nothing is logged.
	Failed func(error)
	// Now returns the time; nil means the real clock.
	Now func() time.Time

	requests once[*stored.Index]
	seals    once[[]ed25519.PublicKey]
}

// once keeps a value that was read, or the error.
type once[T any] struct {
	mu    sync.Mutex // guards all below
	read  bool
	value T
	err   error
}

func (o *once[T]) get(read func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.read {
		o.read = true
		o.value, o.err = read()
	}
	return o.value, o.err
}

// Facts returns the Facts that do not depend on other requests.
func (p *Published) Facts() *Facts {
	now := p.Now
	if now == nil {
		now = clock.RealClock{}.Now
	}
	return &Facts{Objects: p.Objects, Orders: NewOrders(p.Objects, now), Access: p.Access, Controllers: p.Controllers, BuiltIn: signer.Names(), Failed: p.Failed}
}

// UnlistedError is the error of Of if the stored requests cannot be listed, for example
// because the user may not list them.
type UnlistedError struct{ error }

func (e *UnlistedError) Unwrap() error { return e.error }

// Of returns the facts that a decision about a request needs. The error is why a fact
// about other stored requests is not known. The stored requests are read once. A
// request that is not stored counts as newer than all of them.
func (p *Published) Of(ctx context.Context, r *request.Request, needs certpolicy.Needs) (certpolicy.Facts, error) {
	found := p.Facts().Of(ctx, r, needs)
	if p.RequestsUnknown || !needs.Keys && !needs.Earlier {
		return found, nil
	}
	index, err := p.requests.get(func() (*stored.Index, error) { return stored.Read(ctx, p.Objects) })
	if err != nil {
		return found, &UnlistedError{err}
	}
	use := keyuse.Of(r)
	if needs.Keys {
		found.Keys = certpolicy.Known(new(index.Before(use)))
	}
	if needs.Earlier {
		found.Earlier, err = p.earlier(ctx, r, index.Approved(use))
	}
	return found, err
}

// earlier returns the requests of an owner that a request may renew.
func (p *Published) earlier(ctx context.Context, r *request.Request, of []v1alpha1.StoredRequest) (certpolicy.Fact[v1alpha1.EarlierRequests], error) {
	if len(of) == 0 {
		return certpolicy.Known(&v1alpha1.EarlierRequests{}), nil
	}
	keys, err := p.sealKeys(ctx)
	if err != nil {
		return certpolicy.Fact[v1alpha1.EarlierRequests]{}, err
	}
	return PublishedRenewals(ctx, p.Objects, keys, r, of)
}

// ErrNoSealKeys means that the keys that verify approvals are not configured.
var ErrNoSealKeys = errors.New("the keys that verify approvals are not known")

func (p *Published) sealKeys(ctx context.Context) ([]ed25519.PublicKey, error) {
	if p.SealKeys == nil {
		return nil, ErrNoSealKeys
	}
	return p.seals.get(func() ([]ed25519.PublicKey, error) { return p.SealKeys(ctx) })
}

// Open returns the function that opens sealed approvals of people.
func (p *Published) Open(ctx context.Context) (quorum.OpenFunc, error) {
	keys, err := p.sealKeys(ctx)
	return VerifiedBy(keys), err
}

// Votes returns the approvals of people in the conditions of a request whose seals
// verify. The error is why the conditions cannot be verified.
func (p *Published) Votes(ctx context.Context, r *request.Request, conditions []quorum.Condition) ([]quorum.Vote, error) {
	if !HasVotes(conditions) {
		return nil, nil
	}
	open, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	return quorum.Votes(conditions, *r, open), nil
}

// Carried returns the approvals of an earlier order of an ACME client that may count for
// a request, if policies permit that.
func (p *Published) Carried(ctx context.Context, r *request.Request, needs certpolicy.Needs) ([]quorum.Vote, error) {
	if !needs.Carried || acmeorder.OrderOfRequest(r.Name) == "" {
		return nil, nil
	}
	var unread error
	verify := func(text string) (quorum.Record, error) { // reads the keys only if an order has approvals
		open, err := p.Open(ctx)
		if err != nil {
			unread = err
			return quorum.Record{}, err
		}
		return open(text)
	}
	votes, err := p.Facts().Orders.Carried(ctx, r, verify, p.Access)
	return votes, errors.Join(err, unread)
}
