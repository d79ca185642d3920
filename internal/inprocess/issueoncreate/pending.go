package issueoncreate

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Timeout bounds the steps of one request. Unfinished work continues after the request is
// stored, as always.
const Timeout = 3 * time.Second

// Creation is the creation of one request by the API server.
type Creation struct {
	Resource schema.GroupResource
	// Request is the request as it would be stored.
	Request client.Object
	// Update returns current with an update of a subresource by a service account of
	// the controllers, or the error that the API server would answer. It modifies
	// neither.
	Update func(ctx context.Context, by Writer, next, current client.Object) (client.Object, error)
	// Convert makes a request equal to another one, perhaps of another version. They can
	// share parts.
	Convert func(from, to client.Object) error
	// Store stores the request, which it may modify, and returns the stored request.
	Store func(request client.Object) (client.Object, error)
}

// Writer identifies the account of an update and the subresource that it updates.
type Writer struct {
	// Account is a service account of the controllers, and FieldOwner its name in managed
	// fields. If FieldOwner is empty, the API server chooses the name.
	Account, FieldOwner string
	Subresource         string
}

// Run runs the steps for a new request, stores it exactly once, and returns the error of
// Store. ctx is the context of the API call.
func (h *Hub) Run(ctx context.Context, c Creation) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	p := &pending{Creation: c, steps: h.of(c.Resource)}
	return p.proceed(context.WithValue(ctx, pendingKey{}, p))
}

// pending is a request that is being created. One goroutine uses it.
type pending struct {
	Creation
	steps []*Step // those that have not run

	stored bool // Store was called
	err    error

	notes map[any]any
}

// proceed runs the next steps, and stores the request unless one of them did.
func (p *pending) proceed(ctx context.Context) error {
	for len(p.steps) > 0 && !p.stored && ctx.Err() == nil {
		step := p.steps[0]
		p.steps = p.steps[1:]
		if step.Takes(p.Request) {
			p.run(ctx, step)
		}
	}
	if !p.stored {
		p.stored, p.err = true, errNotStored // if Store panics
		p.Request, p.err = p.Store(p.Request)
	}
	return p.err
}

// run runs a step. If the step fails, the same reconciler does the work again when the
// request is stored, and then reports the reason. A panic does not keep the request from
// being stored.
func (p *pending) run(ctx context.Context, step *Step) {
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(nil, "A controller has panicked while a request was created", "resource", p.Resource, "name", p.Request.GetName(), "panic", r)
		}
	}()
	key := client.ObjectKeyFromObject(p.Request)
	logger := klog.FromContext(ctx).WithValues("name", key.Name, "namespace", key.Namespace)
	if _, err := step.Reconciler.Reconcile(log.IntoContext(ctx, logger), reconcile.Request{NamespacedName: key}); err != nil && !p.stored {
		logger.V(2).Info("A controller could not answer a request while it was created", "resource", p.Resource, "err", err)
	}
}

// update changes the request by an update of a controller, has the next steps run, and
// returns when the request is stored. next then shares parts with the stored request.
func (p *pending) update(ctx context.Context, by Writer, next client.Object) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	updated, err := p.Update(ctx, by, next, p.Request)
	if err != nil {
		return err
	}
	p.Request = updated
	if err := p.proceed(ctx); err != nil {
		return err
	}
	return p.Convert(p.Request, next)
}

var errNotStored = errors.New("the request was not stored")

type pendingKey struct{}

// Is reports whether the work of ctx is about a request that is being created.
func Is(ctx context.Context) bool { return of(ctx) != nil }

// Note keeps a value for Noted until the request that is being created is stored. In other
// contexts, it does nothing.
func Note(ctx context.Context, key, value any) {
	p := of(ctx)
	if p == nil {
		return
	}
	if p.notes == nil {
		p.notes = map[any]any{}
	}
	p.notes[key] = value
}

// Noted returns the value that was noted last about the request that is being created; nil
// if there is none.
func Noted(ctx context.Context, key any) any {
	if p := of(ctx); p != nil {
		return p.notes[key]
	}
	return nil
}

// of returns the request that is being created, or nil.
func of(ctx context.Context) *pending {
	if p, _ := ctx.Value(pendingKey{}).(*pending); p != nil && !p.stored {
		return p
	}
	return nil
}

// get makes object equal to the pending request, if that is what key and object mean.
func (p *pending) get(key client.ObjectKey, object client.Object, options []client.GetOption) bool {
	if p == nil || key != client.ObjectKeyFromObject(p.Request) {
		return false
	}
	request := p.Request
	if o := (&client.GetOptions{}).ApplyOptions(options); !ptr.Deref(o.UnsafeDisableDeepCopy, false) {
		request = request.DeepCopyObject().(client.Object)
	}
	return p.Convert(request, object) == nil
}

// is reports whether object is a version of the pending request.
func (p *pending) is(object client.Object) bool {
	return p != nil && object.GetUID() != "" && object.GetUID() == p.Request.GetUID()
}
