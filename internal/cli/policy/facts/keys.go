package facts

import (
	"context"
	"sync"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
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
	f.keys.mu.Lock()
	if f.keys.index == nil && f.keys.err == nil {
		f.keys.index, f.keys.err = stored.Read(ctx, f.Objects)
	}
	index, err := f.keys.index, f.keys.err
	f.keys.mu.Unlock()
	if err != nil {
		f.failed(err)
		return certpolicy.Fact[v1alpha1.StoredKeys]{}
	}
	return certpolicy.Known(new(index.Before(keyuse.Of(r))))
}
