package lean

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// errNotSimple means that a definition needs what only the library can do.
var errNotSimple = errors.New("not a simple definition")

// definition is a stored definition with everything that is derived from it.
type definition struct {
	crd        *apiextensionsv1.CustomResourceDefinition
	version    *apiextensionsv1.CustomResourceDefinitionVersion
	kind       schema.GroupVersionKind
	listKind   schema.GroupVersionKind
	namespaced bool
	owned      bool // one program alone writes the objects

	structural *structuralschema.Structural
	validators func() (*validators, error) // makes them when it is called first
	selectable []selectable
	table      rest.TableConvertor
	types      managedfields.TypeConverter

	// converter is the converter of unstructured objects.
	converter    runtime.ObjectConvertor
	spec, status *fieldTexts
}

// validators check objects.
type validators struct {
	object, status validation.SchemaValidator
	rules          *cel.Validator
}

// simple reports whether a definition has the form that this package can serve: one version,
// a schema of spec and status that drops unknown fields, and the status subresource. All
// other content of these schemas is respected, even features that are newer than this
// program.
func simple(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if len(crd.Spec.Versions) != 1 || crd.Spec.PreserveUnknownFields ||
		crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		return false
	}
	v := crd.Spec.Versions[0]
	if !v.Served || !v.Storage || v.Deprecated || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil ||
		v.Subresources == nil || v.Subresources.Status == nil || v.Subresources.Scale != nil {
		return false
	}
	return simpleRoot(v.Schema.OpenAPIV3Schema)
}

// simpleRoot refuses what concerns the object as a whole: the code treats spec and
// status separately, and metadata by its Go type.
func simpleRoot(root *apiextensionsv1.JSONSchemaProps) bool {
	if root.Type != "object" || root.XPreserveUnknownFields != nil || root.AdditionalProperties != nil || root.XEmbeddedResource ||
		len(root.XValidations) > 0 || len(root.AllOf)+len(root.AnyOf)+len(root.OneOf) > 0 || root.Not != nil {
		return false
	}
	for name, property := range root.Properties {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			property.Description = ""
			if !equality.Semantic.DeepEqual(property, apiextensionsv1.JSONSchemaProps{Type: "object"}) {
				return false
			}
		case "spec", "status":
			if property.Default != nil || property.Nullable {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// compile returns errNotSimple if the library has to serve the definition.
// models are the schemas of metadata.
func compile(crd *apiextensionsv1.CustomResourceDefinition, models map[string]*spec.Schema, converters *conversion.CRConverterFactory) (*definition, error) {
	names := crd.Status.AcceptedNames
	if !simple(crd) || slices.Contains([]string{names.Plural, names.Singular, names.Kind, names.ListKind}, "") {
		return nil, errNotSimple
	}
	version := &crd.Spec.Versions[0]
	gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
	d := &definition{
		crd: crd, version: version, kind: gv.WithKind(names.Kind), listKind: gv.WithKind(names.ListKind),
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		spec:       newFieldTexts("spec"), status: newFieldTexts("status"),
	}
	// These take most of the time and memory, and are made when an object is first written.
	d.validators = sync.OnceValues(d.compileValidators)
	d.types = objectTypes{d, sync.OnceValues(func() (managedfields.TypeConverter, error) { return d.compileTypes(models) })}
	for _, step := range []func() error{
		d.compileSchema,
		func() (err error) { d.selectable, err = selectables(version.SelectableFields); return err },
		func() error { return d.compileTable(gv.Group) },
		func() (err error) { _, d.converter, err = converters.NewConverter(crd); return err },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", crd.Name, err)
		}
	}
	return d, nil
}

func (d *definition) compileSchema() error {
	internal, err := d.internalSchema()
	if err != nil {
		return err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return err
	}
	d.structural = structural.DeepCopy() // it shares defaults with the definition
	return defaulting.PruneDefaults(d.structural)
}

func (d *definition) internalSchema() (*apiextensions.JSONSchemaProps, error) {
	internal := &apiextensions.CustomResourceValidation{}
	err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(d.version.Schema, internal, nil)
	return internal.OpenAPIV3Schema, err
}

func (d *definition) compileValidators() (*validators, error) {
	internal, err := d.internalSchema()
	if err != nil {
		return nil, err
	}
	v := &validators{rules: cel.NewValidator(d.structural, true, celconfig.PerCallLimit)}
	if v.object, err = newValidator(internal); err != nil {
		return nil, err
	}
	if status, ok := internal.Properties["status"]; ok {
		v.status, err = newValidator(&status)
	}
	return v, err
}

// compileTypes makes the schema for server-side apply.
func (d *definition) compileTypes(models map[string]*spec.Schema) (managedfields.TypeConverter, error) {
	own, err := builder.BuildOpenAPIV3(d.crd, d.version.Name, builder.Options{})
	if err != nil {
		return nil, err
	}
	metadata := &spec3.OpenAPI{
		Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "metadata", Version: "v1"}},
		Components: &spec3.Components{Schemas: models},
	}
	all, err := builder.MergeSpecsV3(metadata, own)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(all.Components.Schemas, false)
}

func columns(version *apiextensionsv1.CustomResourceDefinitionVersion) []apiextensionsv1.CustomResourceColumnDefinition {
	if len(version.AdditionalPrinterColumns) > 0 {
		return version.AdditionalPrinterColumns
	}
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
		Description: metadataDescriptions["creationTimestamp"],
	}}
}

// servable reports whether a definition can be served as a whole, now. While its
// objects may not be created, the library serves it.
func servable(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) &&
		apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) &&
		!apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) && crd.DeletionTimestamp.IsZero()
}
