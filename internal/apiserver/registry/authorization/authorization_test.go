package authorization

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

func TestAttributesOf(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann"}
	inBlue, err := labels.NewRequirement("team", selection.In, []string{"blue"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason    string
		resource  *authorizationv1.ResourceAttributes
		url       *authorizationv1.NonResourceAttributes
		want      authorizer.AttributesRecord
		wantError string
	}{
		{"URL", nil, &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/x"},
			authorizer.AttributesRecord{User: ann, Verb: "get", Path: "/x"}, ""},
		{"all of a resource", &authorizationv1.ResourceAttributes{
			Namespace: "n", Verb: "v", Group: "g", Version: "v1", Resource: "r", Subresource: "s", Name: "x",
		}, nil, authorizer.AttributesRecord{
			User: ann, Namespace: "n", Verb: "v", APIGroup: "g", APIVersion: "v1", Resource: "r", Subresource: "s", Name: "x", ResourceRequest: true,
		}, ""},
		{"no version is all versions", &authorizationv1.ResourceAttributes{}, nil,
			authorizer.AttributesRecord{User: ann, APIVersion: "*", ResourceRequest: true}, ""},
		{"raw selectors", &authorizationv1.ResourceAttributes{
			Version:       "v1",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "a!=b"},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "team in (blue)"},
		}, nil, authorizer.AttributesRecord{
			User: ann, APIVersion: "v1", ResourceRequest: true,
			FieldSelectorRequirements: fields.Requirements{{Field: "a", Operator: selection.NotEquals, Value: "b"}},
			LabelSelectorRequirements: labels.Requirements{*inBlue},
		}, ""},
		{"broken raw selectors", &authorizationv1.ResourceAttributes{
			Version:       "v1",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "a"},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "!!"},
		}, nil, authorizer.AttributesRecord{User: ann, APIVersion: "v1", ResourceRequest: true},
			"spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"},
		{"requirements, in part unknown", &authorizationv1.ResourceAttributes{
			Version: "v1",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
				{Key: "a", Operator: "In", Values: []string{"b"}},
				{Key: "c", Operator: "In", Values: []string{"d", "e"}},
				{Key: "f", Operator: "Exists"},
			}},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
				{Key: "team", Operator: "In", Values: []string{"blue"}},
				{Key: "team", Operator: "Near", Values: []string{"red"}},
			}},
		}, nil, authorizer.AttributesRecord{
			User: ann, APIVersion: "v1", ResourceRequest: true,
			FieldSelectorRequirements: fields.Requirements{{Field: "a", Operator: selection.Equals, Value: "b"}},
			LabelSelectorRequirements: labels.Requirements{*inBlue},
		}, "spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector partially ignored due to parse error"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			checkAttributes(t, attributesOf(ann, tt.resource, tt.url), tt.want, tt.wantError)
		})
	}
}

func checkAttributes(t *testing.T, got, want authorizer.AttributesRecord, wantError string) {
	t.Helper()
	if diff := cmp.Diff(wantError, evaluationError(nil, got)); diff != "" {
		t.Errorf("evaluation error (-want +got):\n%s", diff)
	}
	got.FieldSelectorParsingErr, got.LabelSelectorParsingErr = nil, nil
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b labels.Requirement) bool { return a.Equal(b) })); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// resources returns the resources of the group with an authorizer that decides
// by the verb.
func resources(t *testing.T) map[string]rest.Storage {
	t.Helper()
	decide := func(_ context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
		switch request.GetVerb() {
		case "allow":
			return authorizer.DecisionAllow, "by " + request.GetUser().GetName(), nil
		case "deny":
			return authorizer.DecisionDeny, "never", nil
		case "fail":
			return authorizer.DecisionNoOpinion, "", errors.New("broken")
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
	group, err := NewAPIGroup(Options{
		Authorizer: authorizer.AuthorizerFunc(decide),
		Rules:      fixedRules{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return group.VersionedResourcesStorageMap["v1"]
}

type fixedRules struct{}

func (fixedRules) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{Verbs: []string{u.GetName()}, APIGroups: []string{"g"}, Resources: []string{namespace}, ResourceNames: []string{"x"}},
	}, nil, true, errors.New("one role is missing")
}

// ask creates a review as ann in namespace blue.
func ask(t *testing.T, resource string, question runtime.Object) (runtime.Object, error) {
	t.Helper()
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), "blue")
	ctx = genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "ann"})
	return resources(t)[resource].(rest.Creater).Create(ctx, question, nil, &metav1.CreateOptions{})
}

func TestSubjectAccessReview(t *testing.T) {
	for verb, want := range map[string]authorizationv1.SubjectAccessReviewStatus{
		"allow": {Allowed: true, Reason: "by ben"},
		"deny":  {Denied: true, Reason: "never"},
		"fail":  {EvaluationError: "broken"},
		"other": {},
	} {
		t.Run(verb, func(t *testing.T) {
			question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "ben", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb},
			}, Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "forged", EvaluationError: "forged"}}
			got, err := ask(t, "subjectaccessreviews", question)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.(*authorizationv1.SubjectAccessReview).Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelfSubjectAccessReview(t *testing.T) {
	got, err := ask(t, "selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "allow"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "by ann"}
	if diff := cmp.Diff(want, got.(*authorizationv1.SelfSubjectAccessReview).Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestSelfSubjectRulesReview(t *testing.T) {
	got, err := ask(t, "selfsubjectrulesreviews", &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{{Verbs: []string{"ann"}, APIGroups: []string{"g"}, Resources: []string{"n"}, ResourceNames: []string{"x"}}},
		NonResourceRules: []authorizationv1.NonResourceRule{},
		Incomplete:       true,
		EvaluationError:  "one role is missing",
	}
	if diff := cmp.Diff(want, got.(*authorizationv1.SelfSubjectRulesReview).Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestRefusedQuestions(t *testing.T) {
	local := func(object, attributes string) runtime.Object {
		return &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: object},
			Spec:       authorizationv1.SubjectAccessReviewSpec{User: "ben", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: attributes}},
		}
	}
	tests := []struct {
		reason   string
		resource string
		question runtime.Object
		want     int
	}{
		{"invalid", "subjectaccessreviews", &authorizationv1.SubjectAccessReview{}, http.StatusUnprocessableEntity},
		{"invalid about oneself", "selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{}, http.StatusUnprocessableEntity},
		{"not the right kind", "subjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{}, http.StatusBadRequest},
		{"rules of no namespace", "selfsubjectrulesreviews", &authorizationv1.SelfSubjectRulesReview{}, http.StatusBadRequest},
		{"local", "localsubjectaccessreviews", local("blue", "blue"), http.StatusOK},
		{"local, other namespace inside", "localsubjectaccessreviews", local("blue", "red"), http.StatusUnprocessableEntity},
		{"local, other namespace in the request", "localsubjectaccessreviews", local("red", "red"), http.StatusBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := http.StatusOK
			_, err := ask(t, tt.resource, tt.question)
			if status, ok := err.(apierrors.APIStatus); ok {
				got = int(status.Status().Code)
			} else if err != nil {
				t.Fatalf("not an API error: %v", err)
			}
			if got != tt.want {
				t.Errorf("status = %d (%v), want %d", got, err, tt.want)
			}
		})
	}
}

func TestAdmissionCanRefuse(t *testing.T) {
	refuse := func(context.Context, runtime.Object) error { return errors.New("no") }
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "ben", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "allow"},
	}}
	_, err := resources(t)["subjectaccessreviews"].(rest.Creater).Create(t.Context(), question, refuse, nil)
	if err == nil || question.Status.Allowed {
		t.Errorf("Create = %v with status %+v, want the refusal and no answer", err, question.Status)
	}
}

func TestScopeAndNames(t *testing.T) {
	for resource, storage := range resources(t) {
		if got, want := storage.(rest.Scoper).NamespaceScoped(), resource == "localsubjectaccessreviews"; got != want {
			t.Errorf("%s: namespaced = %v, want %v", resource, got, want)
		}
		if got := storage.(rest.SingularNameProvider).GetSingularName() + "s"; got != resource {
			t.Errorf("%s: singular name and s = %q", resource, got)
		}
	}
}
