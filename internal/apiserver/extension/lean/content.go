package lean

import (
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// strictness selects how to treat fields that the definition does not contain.
type strictness struct {
	// report returns them.
	report bool
	// dropBadMetadata drops malformed metadata instead of failing: objects that
	// were stored long ago may have some.
	dropBadMetadata bool
}

// isOurs reports whether an object is of the kind of the definition. Clients may send other
// kinds, which are refused later.
func (d *definition) isOurs(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().GroupKind() == d.kind.GroupKind()
}

// schemaOf returns nil for versions that do not exist.
func (d *definition) schemaOf(content map[string]any) *schema.Structural {
	if content["apiVersion"] != d.kind.GroupVersion().String() {
		return nil
	}
	return d.structural
}

// clean makes an object conform to the definition: it drops unknown fields and nulls, and
// sets defaults. It returns the unknown fields, if they are to be reported. It does not
// change the metadata, and returns them in their Go type.
func (d *definition) clean(u *unstructured.Unstructured, s strictness) (*metav1.ObjectMeta, []string, error) {
	metadata, found, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
		DropMalformedFields: s.dropBadMetadata, ReturnUnknownFieldPaths: s.report,
	})
	if err != nil {
		return nil, nil, err
	}
	if !found {
		metadata = &metav1.ObjectMeta{}
	}
	if !d.isOurs(u) {
		return metadata, unknown, nil
	}
	fields, err := d.cleanContent(u.Object, s)
	return metadata, append(unknown, fields...), err
}

// cleanContent is clean for everything but the metadata.
func (d *definition) cleanContent(content map[string]any, s strictness) (unknown []string, err error) {
	structural := d.schemaOf(content)
	unknown = pruning.PruneWithOptions(content, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: s.report})
	defaulting.PruneNonNullableNullsWithoutDefaults(content, structural)
	invalid, embedded := objectmeta.CoerceWithOptions(nil, content, structural, false, objectmeta.CoerceOptions{
		DropInvalidFields: s.dropBadMetadata, ReturnUnknownFieldPaths: s.report,
	})
	if invalid != nil {
		return nil, invalid
	}
	d.setDefaults(content)
	return append(unknown, embedded...), nil
}

// fromClean converts an object that clean has returned. It takes u over.
func (d *definition) fromClean(u *unstructured.Unstructured, metadata *metav1.ObjectMeta) (*Object, error) {
	o := &Object{TypeMeta: metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}, ObjectMeta: *metadata}
	write := (*fieldTexts).writeClean
	if u.GroupVersionKind() != d.kind {
		write = (*fieldTexts).write
	}
	var err error
	if o.Spec, err = write(d.spec, u.Object); err != nil {
		return nil, err
	}
	o.Status, err = write(d.status, u.Object)
	return o, err
}

// cleanText is cleanContent for the text of a field.
func (d *definition) cleanText(f *fieldTexts, text JSON) (JSON, error) {
	if text == "" {
		return "", nil
	}
	if p := f.find(text); p != nil && p.clean {
		return p.text, nil
	}
	value, err := f.parse(text)
	if err != nil {
		return "", err
	}
	content := map[string]any{"apiVersion": d.kind.GroupVersion().String(), f.name: value}
	if _, err := d.cleanContent(content, strictness{dropBadMetadata: true}); err != nil {
		return "", err
	}
	return f.writeClean(content)
}

// content returns the parts of an object that the schema describes, without its metadata. It
// must not be changed.
func (d *definition) content(o *Object) (map[string]any, error) {
	content := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": map[string]any{}}
	return content, d.addContent(o, content)
}

func (d *definition) addContent(o *Object, content map[string]any) (err error) {
	if o.Spec != "" {
		if content["spec"], err = d.spec.value(o.Spec); err != nil {
			return err
		}
	}
	if o.Status != "" {
		content["status"], err = d.status.value(o.Status)
	}
	return err
}

// view returns an object without its managed fields, which take longer to convert
// than all the rest, as an unstructured one that must not be changed.
func (d *definition) view(o *Object) (*unstructured.Unstructured, error) {
	bare := o.ObjectMeta
	bare.ManagedFields = nil
	metadata, err := metadataMap(&bare)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": metadata}
	return &unstructured.Unstructured{Object: content}, d.addContent(o, content)
}

// loose returns a whole object as an unstructured one of the caller's own.
func (d *definition) loose(o *Object) (*unstructured.Unstructured, error) {
	metadata, err := metadataMap(&o.ObjectMeta)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind}
	if err := d.addContent(o, content); err != nil {
		return nil, err
	}
	content = runtime.DeepCopyJSON(content)
	content["metadata"] = metadata
	return &unstructured.Unstructured{Object: content}, nil
}

// looseList is loose for lists.
func (d *definition) looseList(l *List) (*unstructured.UnstructuredList, error) {
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&l.ListMeta)
	if err != nil {
		return nil, err
	}
	out := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": l.APIVersion, "kind": l.Kind, "metadata": metadata}}
	out.SetContinue(l.Continue) // the library has it in each list
	out.Items = make([]unstructured.Unstructured, 0, len(l.Items))
	for i := range l.Items {
		item, err := d.loose(&l.Items[i])
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, *item)
	}
	return out, nil
}

// set makes an object equal to an unstructured one, which it does not keep.
func (d *definition) set(o *Object, from *unstructured.Unstructured) (err error) {
	o.TypeMeta = metav1.TypeMeta{APIVersion: from.GetAPIVersion(), Kind: from.GetKind()}
	if err := o.setMetadata(from); err != nil {
		return err
	}
	if o.Spec, err = d.spec.write(from.Object); err != nil {
		return err
	}
	o.Status, err = d.status.write(from.Object)
	return err
}

// cleaned returns o as the definition wants it.
func (d *definition) cleaned(o *Object) (*Object, error) {
	out := *o
	var err error
	if out.Spec, err = d.cleanText(d.spec, o.Spec); err != nil {
		return nil, err
	}
	out.Status, err = d.cleanText(d.status, o.Status)
	return &out, err
}

func (d *definition) setDefaults(content map[string]any) {
	defaulting.Default(content, d.schemaOf(content))
}
