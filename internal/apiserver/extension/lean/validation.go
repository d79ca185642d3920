package lean

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	extensionfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// validateNew checks a new object in the order of the library, so that errors are
// listed in the same order.
func (d *definition) validateNew(ctx context.Context, o *Object) field.ErrorList {
	if errs := d.validateKind(o); len(errs) > 0 {
		return errs
	}
	content, err := d.content(o)
	if err != nil {
		return unreadable(err)
	}
	validators, err := d.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := validation.ValidateObjectMetaDeclaratively(ctx, operation.Create, &o.ObjectMeta, nil, d.namespaced,
		validation.NameIsDNSSubdomain, field.NewPath("metadata"), utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta))
	errs = append(errs, schemavalidation.ValidateCustomResource(nil, content, validators.object)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, content, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, content)...)
	return append(errs, d.validateRules(ctx, validators.rules, errs, content, nil)...)
}

// validateChange checks an update of a whole object. An object that is invalid
// already may stay so (KEP-4008).
func (d *definition) validateChange(ctx context.Context, o, old *Object) field.ErrorList {
	if errs := d.validateKind(o); len(errs) > 0 {
		return errs
	}
	errs := d.validateChangedMetadata(ctx, o, old)
	if o.Spec != "" && o.Spec == old.Spec && o.Status == old.Status {
		return errs // it cannot have become invalid
	}
	c, err := d.compare(o, old)
	if err != nil {
		return unreadable(err)
	}
	validators, err := d.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs = append(errs, schemavalidation.ValidateCustomResourceUpdate(nil, c.content, c.old, validators.object, c.options()...)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, c.content, d.structural, false)...)
	errs = append(errs, d.validateLists(c)...)
	errs = append(errs, d.validateRules(ctx, validators.rules, errs, c.content, c.old, c.ruleOptions()...)...)
	c.observe()
	return errs
}

// validateStatus checks an update of a status.
func (d *definition) validateStatus(ctx context.Context, o, old *Object) field.ErrorList {
	if errs := d.validateKind(o); len(errs) > 0 {
		return errs
	}
	errs := d.validateChangedMetadata(ctx, o, old)
	if o.Status == old.Status {
		return errs
	}
	c, err := d.compare(o, old)
	if err != nil {
		return unreadable(err)
	}
	validators, err := d.validators()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if status, has := c.content["status"]; has {
		errs = append(errs, schemavalidation.ValidateCustomResourceUpdate(field.NewPath("status"), status, c.old["status"], validators.status, c.options("status")...)...)
	}
	errs = append(errs, d.validateLists(c)...)
	errs = append(errs, d.validateRules(ctx, validators.rules, errs, c.content, c.old, c.ruleOptions()...)...)
	c.observe()
	return errs
}

func (d *definition) validateKind(o *Object) field.ErrorList {
	var errs field.ErrorList
	if o.Kind != d.kind.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), o.Kind, fmt.Sprintf("must be %v", d.kind.Kind)))
	}
	if version := d.kind.GroupVersion().String(); o.APIVersion != version {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), o.APIVersion, fmt.Sprintf("must be %v", version)))
	}
	return errs
}

func (d *definition) validateChangedMetadata(ctx context.Context, o, old *Object) field.ErrorList {
	return validation.ValidateObjectMetaDeclaratively(ctx, operation.Update, &o.ObjectMeta, &old.ObjectMeta, d.namespaced,
		nil, field.NewPath("metadata"), utilfeature.DefaultFeatureGate.Enabled(features.DeclarativeValidationBeta))
}

func (d *definition) validateLists(c *comparison) field.ErrorList {
	if len(listtype.ValidateListSetsAndMaps(nil, d.structural, c.old)) > 0 {
		return nil
	}
	return listtype.ValidateListSetsAndMaps(nil, d.structural, c.content)
}

// validateRules evaluates the rules of the schema, unless the object is too wrong
// for them.
func (d *definition) validateRules(ctx context.Context, rules *cel.Validator, before field.ErrorList, content, old map[string]any, options ...cel.Option) field.ErrorList {
	if rules == nil {
		return nil
	}
	blocking := []field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}
	if slices.ContainsFunc(before, func(err *field.Error) bool { return slices.Contains(blocking, err.Type) }) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
	}
	var was any
	if old != nil {
		was = old
	}
	errs, _ := rules.Validate(ctx, nil, d.structural, content, was, celconfig.RuntimeCELCostBudget, options...)
	return errs
}

func unreadable(err error) field.ErrorList {
	return field.ErrorList{field.InternalError(nil, err)}
}

// comparison is the content of an object before and after an update.
type comparison struct {
	content, old map[string]any
	correlated   *common.CorrelatedObject // nil if invalid content must not stay
}

func (d *definition) compare(o, old *Object) (*comparison, error) {
	content, err := d.content(o)
	if err != nil {
		return nil, err
	}
	was, err := d.content(old)
	if err != nil {
		return nil, err
	}
	c := &comparison{content: content, old: was}
	if utilfeature.DefaultFeatureGate.Enabled(extensionfeatures.CRDValidationRatcheting) {
		c.correlated = common.NewCorrelatedObject(content, was, &model.Structural{Structural: d.structural})
	}
	return c, nil
}

// options are those for the schema of the field at path, or of the whole object.
func (c *comparison) options(path ...string) []schemavalidation.ValidationOption {
	if c.correlated == nil {
		return nil
	}
	correlated := c.correlated
	for _, name := range path {
		correlated = correlated.Key(name)
	}
	return []schemavalidation.ValidationOption{schemavalidation.WithRatcheting(correlated)}
}

func (c *comparison) ruleOptions() []cel.Option {
	if c.correlated == nil {
		return nil
	}
	return []cel.Option{cel.WithRatcheting(c.correlated)}
}

func (c *comparison) observe() {
	if c.correlated != nil {
		schemavalidation.Metrics.ObserveRatchetingTime(*c.correlated.Duration)
	}
}
