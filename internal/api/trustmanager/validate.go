package trustmanager

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Check returns an error if a written object is a Bundle with an error that its definition
// cannot express. The texts are trust-manager's. Other kinds and subresources pass.
func Check(resource schema.GroupResource, subresource string, object *unstructured.Unstructured) error {
	if resource != GroupVersion.WithResource(Resource).GroupResource() || subresource != "" || object == nil {
		return nil
	}
	b := &Bundle{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, b); err != nil {
		return fmt.Errorf("reading the Bundle: %w", err)
	}
	return validate(b).ToAggregate()
}

func validate(b *Bundle) (errs field.ErrorList) {
	spec, to := field.NewPath("spec"), b.Spec.Target
	sources, defaults := 0, 0
	for i, source := range b.Spec.Sources {
		path := spec.Child("sources").Index(i)
		errs = append(errs, validateKeys(source.ConfigMap, "configMap", path, b.Name, to.ConfigMap)...)
		errs = append(errs, validateKeys(source.Secret, "secret", path, b.Name, to.Secret)...)
		if source.UseDefaultCAs != nil {
			defaults++
		}
		if ptr.Deref(source.UseDefaultCAs, true) {
			sources++
		}
	}
	if sources == 0 {
		errs = append(errs, field.Forbidden(spec.Child("sources"), "must define at least one source"))
	}
	if defaults > 1 {
		errs = append(errs, field.Forbidden(spec.Child("sources"), fmt.Sprintf("must request default CAs either once or not at all but got %d requests", defaults)))
	}
	target, used := spec.Child("target"), map[string]bool{}
	if to.ConfigMap != nil {
		used[to.ConfigMap.Key] = true
		errs = append(errs, validateMetadata(to.ConfigMap.Metadata, target.Child("configMap", "metadata"))...)
	}
	if to.Secret != nil {
		used[to.Secret.Key] = true
		errs = append(errs, validateMetadata(to.Secret.Metadata, target.Child("secret", "metadata"))...)
	}
	unique := func(name, key string) {
		if used[key] {
			errs = append(errs, field.Invalid(target.Child("additionalFormats", name, "key"), key, "key must be unique across all target output keys"))
		}
		used[key] = true
	}
	formats := ptr.Deref(to.AdditionalFormats, AdditionalFormats{})
	if formats.JKS != nil {
		unique("jks", formats.JKS.Key)
	}
	if formats.PKCS12 != nil {
		unique("pkcs12", formats.PKCS12.Key)
	}
	return append(errs, validation.ValidateLabelSelector(to.NamespaceSelector, validation.LabelSelectorValidationOptions{}, target.Child("namespaceSelector"))...)
}

// validateKeys validates a source, which must not be a target.
func validateKeys(of *ObjectKeys, kind string, source *field.Path, bundle string, target *TargetTemplate) (errs field.ErrorList) {
	if of == nil {
		return nil
	}
	path := source.Child(kind)
	switch all := ptr.Deref(of.IncludeAllKeys, false); {
	case of.Key == "" && !all:
		errs = append(errs, field.Invalid(path, "key: ' ', includeAllKeys: false", "source "+kind+" key must be defined when includeAllKeys is false"))
	case of.Key != "" && all:
		errs = append(errs, field.Invalid(path, "key: "+of.Key+", includeAllKeys: true", "source "+kind+" key cannot be defined when includeAllKeys is true"))
	}
	if target != nil && of.Name == bundle && of.Key == target.Key {
		errs = append(errs, field.Forbidden(path.Child(of.Name, of.Key), "cannot define the same source as target"))
	}
	return append(errs, validation.ValidateLabelSelector(of.Selector, validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
}

// validateMetadata validates the metadata of a target, which must not contain its marks.
func validateMetadata(m TargetMetadata, path *field.Path) field.ErrorList {
	errs := append(apivalidation.ValidateAnnotations(m.Annotations, path.Child("annotations")), validation.ValidateLabels(m.Labels, path.Child("labels"))...)
	for name, pairs := range map[string]map[string]string{"annotations": m.Annotations, "labels": m.Labels} {
		for key := range pairs {
			if group, _, _ := strings.Cut(key, "/"); group == GroupName || group == "trust-manager.io" {
				errs = append(errs, field.Invalid(path.Child(name), key, group+"/* "+name+" are not allowed"))
			}
		}
	}
	return errs
}
