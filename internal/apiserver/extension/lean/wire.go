package lean

import (
	"fmt"
	"io"
	"reflect"
	"slices"

	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/certplane/certplane/internal/inprocess/objectpass"
)

// wire encodes and decodes what clients and the server send each other.
type wire struct {
	*definition
	formats []runtime.SerializerInfo
	passed  *passing // nil if objects are always encoded
}

// newWire returns the formats of custom resources, and protobuf, in which only
// other kinds exist, such as the metadata of objects. Clients of this process and the
// server pass each other objects, if there are Go types for the kind.
func newWire(d *definition, typer runtime.ObjectTyper, objects *objectpass.Objects) wire {
	creater := looseCreater{}
	newJSON := func(options json.SerializerOptions) runtime.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, creater, typer, options)
	}
	formats := []runtime.SerializerInfo{
		{
			MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
			Serializer:       newJSON(json.SerializerOptions{StreamingCollectionsEncoding: true}),
			PrettySerializer: newJSON(json.SerializerOptions{Pretty: true}),
			StrictSerializer: newJSON(json.SerializerOptions{Strict: true, StreamingCollectionsEncoding: true}),
			StreamSerializer: &runtime.StreamSerializerInfo{EncodesAsText: true, Serializer: newJSON(json.SerializerOptions{}), Framer: json.Framer},
		},
		{
			MediaType: runtime.ContentTypeYAML, MediaTypeType: "application", MediaTypeSubType: "yaml", EncodesAsText: true,
			Serializer:       newJSON(json.SerializerOptions{Yaml: true}),
			StrictSerializer: newJSON(json.SerializerOptions{Yaml: true, Strict: true}),
		},
		{
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			Serializer: protobuf.NewSerializerWithOptions(creater, typer, protobuf.SerializerOptions{StreamingCollectionsEncoding: true}),
			StreamSerializer: &runtime.StreamSerializerInfo{
				Serializer: protobuf.NewRawSerializer(creater, typer), Framer: protobuf.LengthDelimitedFramer,
			},
		},
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
		formats = append(formats, cbor.NewSerializerInfo(creater, typer))
	}
	passed := newPassing(d, objects)
	if passed != nil {
		formats = append(formats, objects.Format(passed))
	}
	return wire{d, formats, passed}
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (w wire) SupportedMediaTypes() []runtime.SerializerInfo { return w.formats }

// ofObjects are the formats of objects.
func (w wire) ofObjects() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(w.formats), func(f runtime.SerializerInfo) bool { return f.MediaType == runtime.ContentTypeProtobuf })
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (w wire) EncoderForVersion(format runtime.Encoder, version runtime.GroupVersioner) runtime.Encoder {
	if objectpass.IsOfEvents(format) {
		return format
	}
	if w.passed != nil && format == runtime.Encoder(w.passed) {
		return passedEncoder{w.passed, objectpass.NewIdentifier()}
	}
	others := versioning.NewCodec(format, nil, w.converter, crdserver.Scheme, crdserver.Scheme, crdserver.Scheme, version, nil, "lean")
	return encoder{w.definition, format, w.isPlain(format), others}
}

// isPlain reports whether a format is JSON in its stored form.
func (w wire) isPlain(format runtime.Encoder) bool {
	text := w.formats[0]
	return format == text.Serializer || format == text.StrictSerializer || format == text.StreamSerializer.Serializer
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (w wire) DecoderToVersion(format runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	if w.passed != nil && format == runtime.Decoder(w.passed) {
		return w.passed
	}
	strict := false
	if text, ok := format.(*json.Serializer); ok {
		strict = text.IsStrict()
	}
	return decoder{w.definition, format, strict, version}
}

// encoder encodes Objects, Lists and the kinds of the library.
type encoder struct {
	*definition
	format runtime.Encoder
	plain  bool
	others runtime.Encoder
}

// Identifier implements runtime.Encoder.
func (e encoder) Identifier() runtime.Identifier { return e.others.Identifier() }

// Encode implements runtime.Encoder.
func (e encoder) Encode(obj runtime.Object, w io.Writer) error {
	if cached, ok := obj.(runtime.CacheableObject); ok {
		return cached.CacheEncode(e.Identifier(), e.encode, w)
	}
	return e.encode(obj, w)
}

func (e encoder) encode(obj runtime.Object, w io.Writer) error {
	switch o := obj.(type) {
	case *Object:
		if e.plain {
			return o.writeTo(w)
		}
		u, err := e.loose(o)
		if err != nil {
			return err
		}
		return e.others.Encode(u, w)
	case *List:
		if e.plain {
			return o.writeTo(w)
		}
		u, err := e.looseList(o)
		if err != nil {
			return err
		}
		return e.others.Encode(u, w)
	}
	return e.others.Encode(obj, w)
}

// decoder decodes objects that clients send.
type decoder struct {
	*definition
	format  runtime.Decoder
	strict  bool
	version runtime.GroupVersioner
}

// Decode implements runtime.Decoder. Unknown fields are a strict decoding error
// with an object.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	target, ok := into.(*Object)
	if !ok {
		return nil, nil, fmt.Errorf("a %s cannot be read as a %v", d.kind.Kind, reflect.TypeOf(into))
	}
	decoded, kind, err := d.format.Decode(data, defaults, &unstructured.Unstructured{})
	var strict []error
	if err != nil {
		aggregate, ok := runtime.AsStrictDecodingError(err)
		if !ok || decoded == nil {
			return nil, kind, err
		}
		strict = aggregate.Errors()
	}
	u := decoded.(*unstructured.Unstructured)
	metadata, unknown, err := d.clean(u, strictness{report: d.strict})
	if err != nil {
		return nil, kind, err
	}
	o, err := d.fromClean(u, metadata)
	if err != nil {
		return nil, kind, err
	}
	*target = *o
	for _, name := range unknown {
		strict = append(strict, fmt.Errorf("unknown field %q", name))
	}
	if d.strict && len(strict) > 0 {
		return target, kind, runtime.NewStrictDecodingError(strict)
	}
	return target, kind, nil
}
