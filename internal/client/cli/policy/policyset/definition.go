package policyset

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	schema "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/generated/crds"
)

// definition is the definition of a kind, with which the API sets defaults and validates
// objects. Objects in files are treated the same way.
type definition struct {
	shape     *structural.Structural
	validator schema.SchemaValidator
}

// definitions maps plurals of the kinds of policies to their definitions.
var definitions = map[string]*lazyDefinition{
	"certificatepolicies":         newDefinition("certificatepolicies"),
	"certificatepolicyexceptions": newDefinition("certificatepolicyexceptions"),
}

// lazyDefinition is created on first use.
type lazyDefinition struct{ get func() (*definition, error) }

func newDefinition(plural string) *lazyDefinition {
	return &lazyDefinition{sync.OnceValues(func() (*definition, error) { return readDefinition(plural + "." + v1alpha1.GroupName) })}
}

// apply returns an object with its defaults, and the errors of validation.
func (l *lazyDefinition) apply(object []byte) ([]byte, field.ErrorList) {
	d, err := l.get()
	if err != nil {
		return object, field.ErrorList{field.InternalError(nil, err)}
	}
	var value map[string]any
	if err := utiljson.Unmarshal(object, &value); err != nil {
		return object, field.ErrorList{field.InternalError(nil, err)}
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(value, d.shape)
	defaulting.Default(value, d.shape)
	errs := schema.ValidateCustomResource(nil, value, d.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.shape, value)...)
	defaulted, err := json.Marshal(value)
	if err != nil {
		return object, field.ErrorList{field.InternalError(nil, err)}
	}
	return defaulted, errs
}

func readDefinition(name string) (*definition, error) {
	loose, err := crds.Read(name)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, crd); err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	shape, err := structural.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	validator, _, err := schema.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("reading the definition %s: %w", name, err)
	}
	return &definition{shape, validator}, nil
}
