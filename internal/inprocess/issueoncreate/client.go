package issueoncreate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader returns a reader that reads what objects has, and the request that is being
// created.
func Reader(objects client.Reader) client.Reader { return reader{objects} }

// Cache is Reader for all that caches can do.
func Cache(objects cache.Cache) cache.Cache { return cached{objects} }

type cached struct{ cache.Cache }

func (c cached) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return reader{c.Cache}.Get(ctx, key, object, options...)
}

type reader struct{ client.Reader }

func (r reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if of(ctx).get(key, object, options) {
		return nil
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// Client returns the client of a controller that takes part in the creation of
// requests. It is api, with which this service account reaches the API, except that in
// the contexts in which steps run, the request that is being created can be read by
// Get, and its subresources can be updated.
func Client(api client.Client, account string) client.Client {
	return writer{Client: api, account: account}
}

type writer struct {
	client.Client
	account string
}

func (w writer) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return reader{w.Client}.Get(ctx, key, object, options...)
}

func (w writer) Status() client.SubResourceWriter { return w.SubResource("status") }

func (w writer) SubResource(name string) client.SubResourceClient {
	return part{SubResourceClient: w.Client.SubResource(name), name: name, account: w.account}
}

// part updates a subresource.
type part struct {
	client.SubResourceClient
	name    string
	account string
}

func (p part) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	if creating := of(ctx); creating.is(object) {
		o := (&client.SubResourceUpdateOptions{}).ApplyOptions(options)
		return creating.update(ctx, Writer{Account: p.account, FieldOwner: o.FieldManager, Subresource: p.name}, object)
	}
	return p.SubResourceClient.Update(ctx, object, options...)
}
