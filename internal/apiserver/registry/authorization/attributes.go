package authorization

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// attributesOf converts a review into the attributes for an authorizer. Exactly
// one of resource and url is set.
func attributesOf(u user.Info, resource *authorizationv1.ResourceAttributes, url *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		return authorizer.AttributesRecord{User: u, Verb: url.Verb, Path: url.Path}
	}
	request := authorizer.AttributesRecord{
		User:            u,
		Verb:            resource.Verb,
		Namespace:       resource.Namespace,
		APIGroup:        resource.Group,
		APIVersion:      resource.Version,
		Resource:        resource.Resource,
		Subresource:     resource.Subresource,
		Name:            resource.Name,
		ResourceRequest: true,
	}
	if request.APIVersion == "" {
		request.APIVersion = "*"
	}
	if resource.FieldSelector != nil {
		request.FieldSelectorRequirements, request.FieldSelectorParsingErr = fieldRequirements(resource.FieldSelector)
	}
	if resource.LabelSelector != nil {
		request.LabelSelectorRequirements, request.LabelSelectorParsingErr = labelRequirements(resource.LabelSelector)
	}
	return request
}

func userOf(spec authorizationv1.SubjectAccessReviewSpec) user.Info {
	var extra map[string][]string
	if spec.Extra != nil {
		extra = make(map[string][]string, len(spec.Extra))
		for key, values := range spec.Extra {
			extra[key] = values
		}
	}
	return &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: extra}
}

// fieldRequirements returns the valid requirements of selector: a requirement
// only narrows a review, so omitting one is safe.
func fieldRequirements(selector *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := fields.ParseSelector(selector.RawSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing the field selector: %w", err)
		}
		return parsed.Requirements(), nil
	}
	var found fields.Requirements
	var errs []error
	for _, r := range selector.Requirements {
		operator, known := fieldOperators[r.Operator]
		if !known || len(r.Values) != 1 {
			errs = append(errs, fmt.Errorf("cannot use operator %q with %d values on field %q", r.Operator, len(r.Values), r.Key))
			continue
		}
		found = append(found, fields.Requirement{Field: r.Key, Operator: operator, Value: r.Values[0]})
	}
	return found, errors.Join(errs...)
}

// fieldOperators are the operators that field selectors in a URL have.
var fieldOperators = map[metav1.FieldSelectorOperator]selection.Operator{
	metav1.FieldSelectorOpIn:    selection.Equals,
	metav1.FieldSelectorOpNotIn: selection.NotEquals,
}

// labelRequirements returns the valid requirements of selector, as
// fieldRequirements does.
func labelRequirements(selector *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	if selector.RawSelector != "" {
		parsed, err := labels.ParseToRequirements(selector.RawSelector)
		if err != nil {
			return nil, fmt.Errorf("parsing the label selector: %w", err)
		}
		return parsed, nil
	}
	var found labels.Requirements
	var errs []error
	for _, r := range selector.Requirements {
		requirement, err := labels.NewRequirement(r.Key, labelOperators[r.Operator], r.Values)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading the requirement on label %q: %w", r.Key, err))
			continue
		}
		found = append(found, *requirement)
	}
	return found, errors.Join(errs...)
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn:           selection.In,
	metav1.LabelSelectorOpNotIn:        selection.NotIn,
	metav1.LabelSelectorOpExists:       selection.Exists,
	metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

// evaluationError returns why the answer is incomplete.
func evaluationError(err error, request authorizer.AttributesRecord) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	if request.FieldSelectorParsingErr != nil {
		texts = append(texts, ignored("fieldSelector", len(request.FieldSelectorRequirements)))
	}
	if request.LabelSelectorParsingErr != nil {
		texts = append(texts, ignored("labelSelector", len(request.LabelSelectorRequirements)))
	}
	return strings.Join(texts, "; ")
}

func ignored(field string, used int) string {
	extent := "ignored"
	if used > 0 {
		extent = "partially ignored"
	}
	return fmt.Sprintf("spec.resourceAttributes.%s %s due to parse error", field, extent)
}
