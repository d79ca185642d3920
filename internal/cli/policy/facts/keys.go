package facts

import (
	"context"
	"sync"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/request"
)

// keys is the index of the stored requests, which are read once.
type keys struct {
	mu    sync.Mutex // guards all below
	index *stored.Index
	err   error
}

// storedKeys returns the stored requests with whose keys policies compare that of a
// request. One that is not stored itself comes after all that are.
func (f *Finder) storedKeys(ctx context.Context, r *request.Request) certpolicy.Fact[v1alpha1.StoredKeys] {
	index := f.requests(ctx)
	if index == nil {
		return certpolicy.Fact[v1alpha1.StoredKeys]{}
	}
	return certpolicy.Known(new(index.Before(keyuse.Of(r))))
}

// requests returns the index of the stored requests; nil if they cannot be read.
func (f *Finder) requests(ctx context.Context) *stored.Index {
	f.keys.mu.Lock()
	defer f.keys.mu.Unlock()
	if f.keys.index == nil && f.keys.err == nil {
		if f.keys.index, f.keys.err = stored.Read(ctx, f.Objects); f.keys.err != nil {
			f.keys.index = nil
			f.failed(f.keys.err)
		}
	}
	return f.keys.index
}

// earlier returns the stored requests that a request may renew.
func (f *Finder) earlier(ctx context.Context, r *request.Request) certpolicy.Fact[v1alpha1.EarlierRequests] {
	unknown := certpolicy.Fact[v1alpha1.EarlierRequests]{}
	index := f.requests(ctx)
	if index == nil {
		return unknown
	}
	of := index.Approved(keyuse.Of(r))
	if len(of) == 0 {
		return certpolicy.Known(&v1alpha1.EarlierRequests{})
	}
	keys, err := f.sealKeys(ctx)
	if err != nil {
		return unknown
	}
	found, err := policies.PublishedRenewals(ctx, f.Objects, keys, r, of)
	if err != nil {
		f.failed(err)
	}
	return found
}

// Quotas implements Source.
func (f *Finder) Quotas(ctx context.Context, quotas []certpolicy.Quota, uid string, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse {
	if f.Ledger == nil || len(quotas) == 0 {
		return nil
	}
	uses, err := f.Ledger.Use(ctx, quotas, uid, now)
	if err != nil {
		f.failed(err)
	}
	return uses
}
