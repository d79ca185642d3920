package injection

import (
	"encoding/base64"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of objects that get CAs.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the plural, as in the URL.
	Resource string
	// Fields returns the fields of an object that get the CA, and an apply patch that
	// contains these fields and nothing else.
	Fields func(object map[string]any) (fields []Field, patch map[string]any)
}

// Kinds are all kinds.
var Kinds = []Kind{
	{admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), "validatingwebhookconfigurations", webhooks},
	{admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", webhooks},
	{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "customresourcedefinitions", conversion},
	{schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, "apiservices", service},
}

// KindNames returns the names of all kinds.
func KindNames() []string {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Kind)
	}
	return names
}

// KindNamed returns nil for an unknown kind.
func KindNamed(name string) *Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Kind == name })
	if i < 0 {
		return nil
	}
	return &Kinds[i]
}

// Field is a field caBundle: the map that contains it in the object, and the one in the
// patch.
type Field struct{ stored, patch map[string]any }

const caBundle = "caBundle"

// Text returns the stored field, which is in base64.
func (f Field) Text() string {
	text, _ := f.stored[caBundle].(string)
	return text
}

// Bundle returns the content of the field; nil if it has none or cannot be decoded.
func (f Field) Bundle() []byte {
	bundle, err := base64.StdEncoding.DecodeString(f.Text())
	if err != nil {
		return nil
	}
	return bundle
}

// Set sets the field in the patch, and returns it in base64.
func (f Field) Set(bundle []byte) string {
	text := base64.StdEncoding.EncodeToString(bundle)
	f.patch[caBundle] = text
	return text
}

// webhooks returns the fields of all webhooks. The names are the keys of the list.
func webhooks(object map[string]any) (fields []Field, patch map[string]any) {
	all, _ := object["webhooks"].([]any)
	var named []any
	for _, one := range all {
		webhook, _ := one.(map[string]any)
		client := map[string]any{}
		fields = append(fields, Field{within(webhook, "clientConfig"), client})
		named = append(named, map[string]any{"name": webhook["name"], "clientConfig": client})
	}
	return fields, map[string]any{"webhooks": named}
}

// conversion returns the field of a definition whose objects a webhook converts.
func conversion(object map[string]any) (fields []Field, patch map[string]any) {
	conversion := within(object, "spec", "conversion")
	if conversion["strategy"] != "Webhook" {
		return nil, nil
	}
	client := map[string]any{}
	patch = map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": client}}}}
	return []Field{{within(conversion, "webhook", "clientConfig"), client}}, patch
}

// service returns the field of an APIService.
func service(object map[string]any) (fields []Field, patch map[string]any) {
	spec := map[string]any{}
	return []Field{{within(object, "spec"), spec}}, map[string]any{"spec": spec}
}

// within returns the map at a path, nil if there is none.
func within(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}
