package lean

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// looseAdmission shows admission plugins, webhooks and policies unstructured
// objects, like those of all other custom resources. An object is converted only
// when the first of them looks at it.
type looseAdmission struct {
	*definition
	admission.Interface
	interfaces looseInterfaces
}

var (
	_ admission.MutationInterface   = looseAdmission{}
	_ admission.ValidationInterface = looseAdmission{}
)

// Alone returns the checks of the next one that answer without the plugins that users
// configure; nil if it has none. See apiserver.onCreate.
func (l looseAdmission) Alone(resource schema.GroupResource, subresource string) admission.MutationInterface {
	if next, ok := l.Interface.(interface {
		Alone(resource schema.GroupResource, subresource string) admission.MutationInterface
	}); ok {
		if checks := next.Alone(resource, subresource); checks != nil {
			return looseAdmission{l.definition, checks, l.interfaces}
		}
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (l looseAdmission) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	next, ok := l.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	seen := l.attributes(a)
	if err := next.Admit(ctx, seen, l.interfaces); err != nil {
		return err
	}
	return seen.store()
}

// Validate implements admission.ValidationInterface.
func (l looseAdmission) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	next, ok := l.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	seen := l.attributes(a)
	if err := next.Validate(ctx, seen, l.interfaces); err != nil {
		return err
	}
	return seen.failed()
}

func (l looseAdmission) attributes(a admission.Attributes) *looseAttributes {
	return &looseAttributes{
		Attributes: a,
		object:     converted{definition: l.definition, from: a.GetObject()},
		old:        converted{definition: l.definition, from: a.GetOldObject()},
	}
}

// looseAttributes are used by one goroutine at a time.
type looseAttributes struct {
	admission.Attributes
	object, old converted
}

// GetObject implements admission.Attributes.
func (a *looseAttributes) GetObject() runtime.Object { return a.object.loose() }

// GetOldObject implements admission.Attributes.
func (a *looseAttributes) GetOldObject() runtime.Object { return a.old.loose() }

// ReadObjects returns the objects without their managed fields, for plugins that
// change nothing. It costs less than the other methods.
func (a *looseAttributes) ReadObjects() (object, old *unstructured.Unstructured) {
	return a.object.read(), a.old.read()
}

// store writes what plugins have changed to the object of the request.
func (a *looseAttributes) store() error {
	if err := a.failed(); err != nil || a.object.to == nil {
		return err
	}
	return a.object.set(a.object.from.(*Object), a.object.to)
}

// failed returns why plugins have not seen an object: then they have decided about
// nothing.
func (a *looseAttributes) failed() error { return cmp.Or(a.object.err, a.old.err) }

// converted is an object that is converted when it is needed.
type converted struct {
	*definition
	from runtime.Object
	to   *unstructured.Unstructured // may be changed
	view *unstructured.Unstructured
	err  error
}

func (c *converted) read() *unstructured.Unstructured {
	from, ok := c.from.(*Object)
	if !ok || c.to != nil {
		return c.to
	}
	if c.view == nil && c.err == nil {
		c.view, c.err = c.definition.view(from)
	}
	return c.view
}

func (c *converted) loose() runtime.Object {
	from, ok := c.from.(*Object)
	if !ok {
		return c.from // nil, or the options of a request
	}
	if c.to == nil && c.err == nil {
		c.to, c.err = c.definition.loose(from)
	}
	if c.err != nil {
		return nil
	}
	return c.to
}

// looseInterfaces are for unstructured objects.
type looseInterfaces struct {
	*definition
	typer      runtime.ObjectTyper
	equivalent runtime.EquivalentResourceMapper
}

func (looseInterfaces) GetObjectCreater() runtime.ObjectCreater { return looseCreater{} }

func (i looseInterfaces) GetObjectTyper() runtime.ObjectTyper { return i.typer }

func (i looseInterfaces) GetObjectDefaulter() runtime.ObjectDefaulter {
	return looseDefaulter{i.definition}
}

func (i looseInterfaces) GetObjectConvertor() runtime.ObjectConvertor { return i.converter }

func (i looseInterfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return i.equivalent
}
