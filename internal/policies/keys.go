package policies

import (
	"context"
	"sync/atomic"

	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/worker"
)

// keys finds the stored requests with whose keys policies compare that of a
// request.
type keys struct {
	api   dynamic.Interface
	kinds worker.Lookup
	// index is nil unless a policy needs it.
	index atomic.Pointer[stored.Index]
}

// followKeys keeps the index of the keys of stored requests while a policy needs
// it, until ctx ends.
func (p *Policies) followKeys(ctx context.Context) {
	changed := make(chan struct{}, 1)
	defer p.Subscribe(func(struct{}) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	stop := func() {}
	defer func() { stop() }()
	for {
		set, err := p.Set()
		needed := err == nil && set.NeedsKeys()
		switch running := p.keys.index.Load() != nil; {
		case needed && !running:
			stop = p.keys.start(ctx)
		case !needed && running:
			stop()
			stop = func() {}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// start begins to follow the requests, and returns the function that ends it.
func (k *keys) start(ctx context.Context) (stop func()) {
	index := stored.New()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		index.Follow(ctx, k.api, k.kinds)
	}()
	k.index.Store(index)
	return func() {
		k.index.Store(nil)
		cancel()
		<-ended
	}
}

// find returns the stored requests that come before that of a decision. They are
// not known before all requests are, this one too if it is stored.
func (k *keys) find(ctx context.Context, in *certpolicy.Input) certpolicy.Fact[v1alpha1.StoredKeys] {
	index := k.index.Load()
	if index == nil {
		return certpolicy.Fact[v1alpha1.StoredKeys]{}
	}
	found, known := index.Find(ctx, keyuse.Of(&in.Request), in.Stage != v1alpha1.StageCreate)
	if !known {
		return certpolicy.Fact[v1alpha1.StoredKeys]{}
	}
	return certpolicy.Known(&found)
}

// claim notes that a request that policies permit is getting its certificate. It is
// false if the stored requests are not any more those of the decision.
func (k *keys) claim(d *Decision) bool {
	seen := d.Input.Facts.Keys.Value
	if seen == nil {
		return true
	}
	index := k.index.Load()
	return index == nil || index.Claim(keyuse.Of(&d.Input.Request), *seen)
}
