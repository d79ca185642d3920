package inprocess

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/inprocess/readcache"
)

// passing is a client that passes objects. Deletions, apply patches and the
// bodies of subresources of another kind are encoded: they are small or rare.
type passing struct {
	client.Client
	objects *objectpass.Objects
	// refused holds the types that the API accepts only encoded: for example, kinds that it
	// serves by a newer definition than this program's.
	refused sync.Map
	recent  *readcache.Reader
}

// Get implements client.Reader.
func (p *passing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if len(opts) == 0 {
		if known, err := p.recent.Get(ctx, key, obj); known {
			return err
		}
	}
	err := p.read(ctx, obj, func(ctx context.Context) error { return p.Client.Get(ctx, key, obj, opts...) })
	if err == nil && len(opts) == 0 {
		p.recent.Keep(obj)
	}
	return err
}

// List implements client.Reader.
func (p *passing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return p.read(ctx, list, func(ctx context.Context) error { return p.Client.List(ctx, list, opts...) })
}

// Create implements client.Writer.
func (p *passing) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	dry := len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0
	return p.write(ctx, obj, dry, func(ctx context.Context, body client.Object) error { return p.Client.Create(ctx, body, opts...) })
}

// Update implements client.Writer.
func (p *passing) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	dry := len((&client.UpdateOptions{}).ApplyOptions(opts).DryRun) > 0
	return p.write(ctx, obj, dry, func(ctx context.Context, body client.Object) error { return p.Client.Update(ctx, body, opts...) })
}

// Patch implements client.Writer.
func (p *passing) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return p.read(ctx, obj, func(ctx context.Context) error { return p.Client.Patch(ctx, obj, patch, opts...) })
}

// Status implements client.StatusClient.
func (p *passing) Status() client.SubResourceWriter { return p.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (p *passing) SubResource(name string) client.SubResourceClient {
	return passingSubresource{p.Client.SubResource(name), p}
}

type passingSubresource struct {
	client.SubResourceClient
	p *passing
}

// Update implements client.SubResourceWriter.
func (s passingSubresource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	options := &client.SubResourceUpdateOptions{}
	options.ApplyOptions(opts)
	if options.SubResourceBody != nil {
		return s.SubResourceClient.Update(ctx, obj, opts...)
	}
	return s.p.write(ctx, obj, len(options.DryRun) > 0, func(ctx context.Context, body client.Object) error {
		return s.SubResourceClient.Update(ctx, body, opts...)
	})
}

// Patch implements client.SubResourceWriter.
func (s passingSubresource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	options := &client.SubResourcePatchOptions{}
	options.ApplyOptions(opts)
	if options.SubResourceBody != nil {
		return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
	}
	return s.p.read(ctx, obj, func(ctx context.Context) error { return s.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// read makes a call whose answer is an object like obj.
func (p *passing) read(ctx context.Context, obj runtime.Object, call func(context.Context) error) error {
	if !p.objects.Passes(obj) {
		return call(ctx)
	}
	var exchange loopback.Exchange
	if err := call(loopback.WithExchange(ctx, &exchange)); err != nil || exchange.Received == nil {
		return err
	}
	return p.receive(obj, exchange.Received)
}

// write makes a call whose request and answer are objects like obj, and keeps the
// answer if the call is not a dry run.
func (p *passing) write(ctx context.Context, obj client.Object, dry bool, call func(ctx context.Context, body client.Object) error) error {
	err := p.pass(ctx, obj, call)
	if err == nil && !dry {
		p.recent.Keep(obj)
	}
	return err
}

// pass passes obj, if it can be passed. The body that is encoded has only the name.
func (p *passing) pass(ctx context.Context, obj client.Object, call func(ctx context.Context, body client.Object) error) error {
	of := reflect.TypeOf(obj)
	if _, refused := p.refused.Load(of); refused || !p.objects.Passes(obj) {
		return call(ctx, obj)
	}
	body := reflect.New(of.Elem()).Interface().(client.Object)
	body.SetNamespace(obj.GetNamespace())
	body.SetName(obj.GetName())
	body.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	exchange := loopback.Exchange{Send: obj}
	err := call(loopback.WithExchange(ctx, &exchange), body)
	if apierrors.IsUnsupportedMediaType(err) {
		p.refused.Store(of, true)
		return call(ctx, obj)
	}
	if err != nil {
		return err
	}
	received := exchange.Received
	if received == nil {
		received = body
	}
	return p.receive(obj, received)
}

func (p *passing) receive(into, received runtime.Object) error {
	if !p.objects.CopyInto(into, received) {
		return fmt.Errorf("the API has answered with %T instead of %T", received, into)
	}
	return nil
}
