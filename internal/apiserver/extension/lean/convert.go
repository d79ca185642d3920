package lean

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

var metadataDescriptions = metav1.ObjectMeta{}.SwaggerDoc()

// objectTypes is a type converter that also supports Objects.
type objectTypes struct {
	*definition
	unstructured func() (managedfields.TypeConverter, error)
}

// ObjectToTyped implements managedfields.TypeConverter. It omits managed fields, which have
// no owner.
func (t objectTypes) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if o, ok := obj.(*Object); ok {
		u, err := t.view(o)
		if err != nil {
			return nil, err
		}
		obj = u
	}
	types, err := t.unstructured()
	if err != nil {
		return nil, err
	}
	return types.ObjectToTyped(obj, opts...)
}

// TypedToObject implements managedfields.TypeConverter. The result has the
// definition's defaults.
func (t objectTypes) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	types, err := t.unstructured()
	if err != nil {
		return nil, err
	}
	obj, err := types.TypedToObject(value)
	if err != nil {
		return nil, err
	}
	u := obj.DeepCopyObject().(*unstructured.Unstructured) // it shares values with the stored object
	looseDefaulter{t.definition}.Default(u)
	o := &Object{}
	return o, t.set(o, u)
}

// noFields is a type converter for objects without managed fields: it finds no fields in any
// object.
type noFields struct{}

// ObjectToTyped implements managedfields.TypeConverter.
func (noFields) ObjectToTyped(runtime.Object, ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return typed.DeducedParseableType.FromUnstructured(map[string]any{})
}

// TypedToObject implements managedfields.TypeConverter.
func (noFields) TypedToObject(*typed.TypedValue) (runtime.Object, error) {
	return nil, errors.New("objects of this kind cannot be applied")
}

// objectConverter is the identity: there is one version.
type objectConverter struct{ *definition }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c objectConverter) ConvertFieldLabel(kind schema.GroupVersionKind, label, value string) (string, string, error) {
	return c.converter.ConvertFieldLabel(kind, label, value)
}

// Convert implements runtime.ObjectConvertor.
func (c objectConverter) Convert(in, out, _ any) error {
	from, ok := in.(*Object)
	to, alsoOK := out.(*Object)
	if !ok || !alsoOK {
		return fmt.Errorf("a %T cannot be converted to a %T", in, out)
	}
	*to = *from.DeepCopyObject().(*Object)
	return nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (c objectConverter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	from := in.GetObjectKind().GroupVersionKind()
	if to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from}); !ok || to.GroupVersion() != c.kind.GroupVersion() {
		return nil, fmt.Errorf("%s cannot be converted to %s", from, target)
	}
	return in, nil
}

// objectCreater makes Objects.
type objectCreater struct{}

// New implements runtime.ObjectCreater.
func (objectCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return newObject(kind), nil
}

func newObject(kind schema.GroupVersionKind) *Object {
	o := &Object{}
	o.SetGroupVersionKind(kind)
	return o
}

// looseCreater makes unstructured objects.
type looseCreater struct{}

// New implements runtime.ObjectCreater.
func (looseCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// looseDefaulter sets the definition's defaults in unstructured objects.
type looseDefaulter struct{ *definition }

// Default implements runtime.ObjectDefaulter.
func (l looseDefaulter) Default(obj runtime.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && l.isOurs(u) {
		l.setDefaults(u.Object)
	}
}

// objectTyper supports Objects, unstructured objects and options.
type objectTyper struct{ options *runtime.Scheme }

// ObjectKinds implements runtime.ObjectTyper.
func (t objectTyper) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	switch obj.(type) {
	case *Object, *List, runtime.Unstructured:
	default:
		return t.options.ObjectKinds(obj)
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" {
		return nil, false, runtime.NewMissingKindErr("an object without a kind")
	}
	if kind.Version == "" {
		return nil, false, runtime.NewMissingVersionErr("an object without a version")
	}
	return []schema.GroupVersionKind{kind}, false, nil
}

// Recognizes implements runtime.ObjectTyper.
func (t objectTyper) Recognizes(schema.GroupVersionKind) bool { return true }
