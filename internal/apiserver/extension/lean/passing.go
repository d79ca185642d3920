package lean

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// passing passes objects between the server and clients of this process, in the Go
// type of their kind. It implements runtime.Serializer. Clients get objects that share
// their parts with each other.
type passing struct {
	*definition
	objects *objectpass.Objects
	// object and list are the structs of the kind.
	object, list reflect.Type
}

// newPassing returns nil if the kind has no Go types.
func newPassing(d *definition, objects *objectpass.Objects) *passing {
	types, ok := objects.Custom(d.kind)
	if !ok {
		return nil
	}
	return &passing{d, objects, reflect.TypeOf(types.Object).Elem(), reflect.TypeOf(types.List).Elem()}
}

// Identifier implements runtime.Encoder.
func (p *passing) Identifier() runtime.Identifier { return "passing" }

// Encode implements runtime.Encoder.
func (p *passing) Encode(obj runtime.Object, w io.Writer) error {
	return passedEncoder{p, objectpass.NewIdentifier()}.Encode(obj, w)
}

// passedEncoder writes handles of objects.
type passedEncoder struct {
	*passing
	identifier runtime.Identifier
}

// Identifier implements runtime.Encoder.
func (e passedEncoder) Identifier() runtime.Identifier { return e.identifier }

// Encode implements runtime.Encoder.
func (e passedEncoder) Encode(obj runtime.Object, w io.Writer) error {
	if cached, ok := obj.(runtime.CacheableObject); ok {
		obj = cached.GetObject()
	}
	var err error
	switch o := obj.(type) {
	case *Object:
		obj, err = e.toGo(o)
	case *List:
		obj, err = e.toGoList(o)
	}
	if err != nil {
		return err
	}
	return e.objects.Write(obj, w)
}

// toGo returns an object in its Go type. Nothing behind its pointers may be changed.
func (p *passing) toGo(o *Object) (runtime.Object, error) {
	made := reflect.New(p.object)
	return made.Interface().(runtime.Object), p.fill(made.Elem(), o)
}

func (p *passing) fill(made reflect.Value, o *Object) error {
	made.FieldByName("ObjectMeta").Set(reflect.ValueOf(o.ObjectMeta))
	for _, part := range []struct {
		texts *fieldTexts
		name  string
		text  JSON
	}{{p.spec, "Spec", o.Spec}, {p.status, "Status", o.Status}} {
		if part.text == "" {
			continue
		}
		into := made.FieldByName(part.name)
		value, err := part.texts.goValue(part.text, into.Type())
		if err != nil {
			return err
		}
		into.Set(value)
	}
	return nil
}

func (p *passing) toGoList(l *List) (runtime.Object, error) {
	made := reflect.New(p.list)
	made.Elem().FieldByName("ListMeta").Set(reflect.ValueOf(l.ListMeta))
	items := made.Elem().FieldByName("Items")
	items.Set(reflect.MakeSlice(items.Type(), len(l.Items), len(l.Items)))
	for i := range l.Items {
		if err := p.fill(items.Index(i), &l.Items[i]); err != nil {
			return nil, err
		}
	}
	return made.Interface().(runtime.Object), nil
}

// Decode implements runtime.Decoder.
func (p *passing) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	target, ok := into.(*Object)
	if !ok {
		return nil, nil, fmt.Errorf("a %s cannot be read as a %T", p.kind.Kind, into)
	}
	sent, ok := p.objects.Take(data)
	if !ok {
		return nil, nil, errors.New("this is not the handle of an object")
	}
	value := reflect.ValueOf(sent)
	if value.Kind() != reflect.Pointer || value.Type().Elem() != p.object {
		return nil, nil, fmt.Errorf("a %T is not a %s", sent, p.kind.Kind)
	}
	o, err := p.fromGo(value.Elem())
	if err != nil {
		return nil, nil, err
	}
	*target = *o
	kind := p.kind
	return target, &kind, nil
}

// fromGo returns what would have been decoded if the object were encoded. It takes the
// object over.
func (p *passing) fromGo(sent reflect.Value) (*Object, error) {
	content := map[string]any{"apiVersion": p.kind.GroupVersion().String(), "kind": p.kind.Kind}
	for _, part := range []struct {
		texts *fieldTexts
		name  string
	}{{p.spec, "Spec"}, {p.status, "Status"}} {
		field, value := p.field(part.name), sent.FieldByName(part.name)
		if strings.Contains(field.Tag.Get("json"), ",omitzero") && value.IsZero() {
			continue
		}
		text, err := json.Marshal(value.Interface())
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", part.texts.name, err)
		}
		if content[part.texts.name], err = part.texts.parse(JSON(text)); err != nil {
			return nil, err
		}
	}
	if _, err := p.cleanContent(content, strictness{}); err != nil {
		return nil, err
	}
	o := &Object{
		TypeMeta:   metav1.TypeMeta{APIVersion: p.kind.GroupVersion().String(), Kind: p.kind.Kind},
		ObjectMeta: sent.FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta),
	}
	var err error
	if o.Spec, err = p.spec.writeClean(content); err != nil {
		return nil, err
	}
	o.Status, err = p.status.writeClean(content)
	return o, err
}

func (p *passing) field(name string) reflect.StructField {
	field, _ := p.object.FieldByName(name) // objectpass.Custom promises it
	return field
}

// goValue returns the value of a text in a Go type, which is always the same for a field.
// Nothing behind the pointers of the value may be changed.
func (f *fieldTexts) goValue(text JSON, of reflect.Type) (reflect.Value, error) {
	slot := &f.inGo[f.number(text)]
	if known := slot.Load(); known != nil && known.text == text {
		return known.value, nil
	}
	value := reflect.New(of)
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), value.Interface()); err != nil {
		return reflect.Value{}, fmt.Errorf("reading %s: %w", f.name, err)
	}
	if len(text) <= longestRemembered {
		slot.Store(&inGo{text, value.Elem()})
	}
	return value.Elem(), nil
}
