package policies

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/keyuse"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/worker"
)

// keys finds the other stored requests that policies read for a decision: requests
// whose keys they compare with its key, and requests that it may renew.
type keys struct {
	api   dynamic.Interface
	kinds worker.Lookup
	// index is nil unless a policy needs it.
	index       atomic.Pointer[stored.Index]
	seals       *Seals
	authorities *authorities
}

// follow keeps the index of the keys of stored requests while a policy needs
// it, until ctx ends.
func (k *keys) follow(ctx context.Context, policies *source) {
	changed, cancel := worker.Changed(policies.changes.Subscribe)
	defer cancel()
	stop := func() {}
	defer func() { stop() }()
	for {
		set, err := policies.set()
		needed := err == nil && set.NeedsRequests()
		switch running := k.index.Load() != nil; {
		case needed && !running:
			stop = k.start(ctx)
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

// errRequestsUnknown means that the stored requests are not known yet.
var errRequestsUnknown = errors.New("the stored requests with which a certificate policy compares this one are not known yet; try again")

// find adds the stored requests that a decision needs to its facts. It returns false
// while the index is not complete, or does not have this request although it is stored.
func (k *keys) find(ctx context.Context, in *certpolicy.Input, needs certpolicy.Needs) bool {
	if in.Stage == v1alpha1.StageOwner {
		return true // there is no request yet, and perhaps no key: both stay open
	}
	index := k.index.Load()
	if index == nil {
		return false
	}
	if issueoncreate.Is(ctx) {
		return false // the index does not have it before it is stored
	}
	use := keyuse.Of(&in.Request)
	found, known := index.Find(ctx, use, in.Stage != v1alpha1.StageCreate)
	if known && needs.Keys {
		in.Facts.Keys = certpolicy.Known(&found)
	}
	if known && needs.Earlier {
		in.Facts.Earlier = k.earlier(ctx, &in.Request, index.Approved(use))
		known = in.Facts.Earlier.Known
	}
	return known
}

// earlier returns the requests of an owner that a request may renew.
func (k *keys) earlier(ctx context.Context, r *request.Request, of []v1alpha1.StoredRequest) certpolicy.Fact[v1alpha1.EarlierRequests] {
	load := func(ctx context.Context, one v1alpha1.StoredRequest) (client.Object, error) {
		return stored.Load(ctx, k.api, one)
	}
	earlier, err := Renewals{Load: load, Open: k.seals.Open, Authorities: k.authorities.of}.Of(ctx, r, of)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot decide about a request yet", "name", r.Name)
	}
	return earlier
}

// claim notes that a request that policies permit is getting its certificate. It
// returns false if the stored requests have changed since the decision.
func (k *keys) claim(d *Decision) bool {
	seen := d.Input.Facts.Keys.Value
	if seen == nil {
		return true
	}
	index := k.index.Load()
	return index == nil || index.Claim(keyuse.Of(&d.Input.Request), *seen)
}
