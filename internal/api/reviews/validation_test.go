package reviews

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func summaries(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s: %s: %s", err.Field, err.Type, err.Detail))
	}
	slices.Sort(out)
	return out
}

func TestValidateSubjectAccessReview(t *testing.T) {
	pods := &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}
	url := &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/x"}
	fieldSelector := func(s authorizationv1.FieldSelectorAttributes) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{FieldSelector: &s}
	}
	labelSelector := func(s authorizationv1.LabelSelectorAttributes) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{LabelSelector: &s}
	}
	tests := []struct {
		reason string
		meta   metav1.ObjectMeta
		spec   authorizationv1.SubjectAccessReviewSpec
		want   []string
	}{
		{"resource", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods, User: "ann"}, nil},
		{"URL", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: url, Groups: []string{"g"}}, nil},
		{"both", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods, NonResourceAttributes: url, User: "ann"},
			[]string{"spec.nonResourceAttributes: Invalid value: cannot be specified in combination with resourceAttributes"}},
		{"neither", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann"},
			[]string{"spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"}},
		{"nobody", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods},
			[]string{"spec.user: Invalid value: at least one of user or group must be specified"}},
		{"named", metav1.ObjectMeta{Name: "x"}, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods, User: "ann"},
			[]string{"metadata: Invalid value: must be empty"}},
		{"managed fields are the server's own", metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
			authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: pods, User: "ann"}, nil},
		{"field selector in both forms", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: fieldSelector(authorizationv1.FieldSelectorAttributes{
			RawSelector: "a=b", Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "Exists"}},
		})}, []string{"spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: may not specified at the same time as requirements"}},
		{"field selector in no form", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: fieldSelector(authorizationv1.FieldSelectorAttributes{})},
			[]string{"spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"}},
		{"field requirement without values", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: fieldSelector(authorizationv1.FieldSelectorAttributes{
			Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "In"}},
		})}, []string{"spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
		{"operators of newer clients", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: fieldSelector(authorizationv1.FieldSelectorAttributes{
			Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "Near"}},
		})}, nil},
		{"raw selectors are read later", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: labelSelector(authorizationv1.LabelSelectorAttributes{RawSelector: "!!"})}, nil},
		{"label selector in no form", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: labelSelector(authorizationv1.LabelSelectorAttributes{})},
			[]string{"spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"}},
		{"label requirement with needless values", metav1.ObjectMeta{}, authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: labelSelector(authorizationv1.LabelSelectorAttributes{
			Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists", Values: []string{"b"}}},
		})}, []string{"spec.resourceAttributes.labelSelector.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{ObjectMeta: tt.meta, Spec: tt.spec}
			if diff := cmp.Diff(tt.want, summaries(ValidateSubjectAccessReview(review))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateSelfSubjectAccessReview(t *testing.T) {
	tests := []struct {
		reason string
		review authorizationv1.SelfSubjectAccessReview
		want   []string
	}{
		{"no user needed", authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{},
		}}, nil},
		{"neither, and named", authorizationv1.SelfSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, []string{
			"metadata: Invalid value: must be empty",
			"spec.resourceAttributes: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, summaries(ValidateSelfSubjectAccessReview(&tt.review))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateLocalSubjectAccessReview(t *testing.T) {
	in := func(namespace string) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace}}
	}
	tests := []struct {
		reason string
		meta   metav1.ObjectMeta
		spec   authorizationv1.SubjectAccessReviewSpec
		want   []string
	}{
		{"same namespace", metav1.ObjectMeta{Namespace: "blue"}, in("blue"), nil},
		{"other namespace", metav1.ObjectMeta{Namespace: "blue"}, in("red"), []string{"spec.resourceAttributes.namespace: Invalid value: must match metadata.namespace"}},
		{"no namespace", metav1.ObjectMeta{Namespace: "blue"}, in(""), []string{"spec.resourceAttributes.namespace: Invalid value: must match metadata.namespace"}},
		{"named", metav1.ObjectMeta{Namespace: "blue", Name: "x"}, in("blue"), []string{"metadata: Invalid value: must be empty except for namespace"}},
		{"URL", metav1.ObjectMeta{Namespace: "blue"}, authorizationv1.SubjectAccessReviewSpec{User: "ann", NonResourceAttributes: &authorizationv1.NonResourceAttributes{}},
			[]string{"spec.nonResourceAttributes: Invalid value: disallowed on this kind of request"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: tt.meta, Spec: tt.spec}
			if diff := cmp.Diff(tt.want, summaries(ValidateLocalSubjectAccessReview(review))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
