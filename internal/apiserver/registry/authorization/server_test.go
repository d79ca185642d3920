package authorization_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
)

// allowAnn allows ann to read pods in namespace blue, and waits until the
// server has seen it.
func allowAnn(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "ann"}},
	}
	if _, err := admin.RbacV1().Roles("blue").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings("blue").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		review, err := admin.AuthorizationV1().LocalSubjectAccessReviews("blue").Create(ctx, localReview("blue", "get"), metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	if err != nil {
		t.Fatalf("waiting until ann may read pods: %v", err)
	}
}

func localReview(namespace, verb string) *authorizationv1.LocalSubjectAccessReview {
	return &authorizationv1.LocalSubjectAccessReview{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec:       authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: podsIn(namespace, verb)},
	}
}

func podsIn(namespace, verb string) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: "pods"}
}

const because = `RBAC: allowed by RoleBinding "reader/blue" of Role "reader" to User "ann"`

// users are clients of a server that lets ann read pods in namespace blue.
type users struct {
	admin, ann kubernetes.Interface
}

func TestServer(t *testing.T) {
	s := apitest.Start(t)
	u := users{admin: apitest.Client(t, s.Admin(t)), ann: apitest.Client(t, s.As(t, "ann"))}
	apitest.NewNamespace(t, u.admin, "blue")
	allowAnn(t, u.admin)
	t.Run("SelfSubjectAccessReview", u.testSelfSubjectAccessReview)
	t.Run("SubjectAccessReview", u.testSubjectAccessReview)
	t.Run("LocalSubjectAccessReview", u.testLocalSubjectAccessReview)
	t.Run("SelfSubjectRulesReview", u.testSelfSubjectRulesReview)
}

func (u users) testSelfSubjectAccessReview(t *testing.T) {
	for _, tt := range []struct {
		reason string
		spec   authorizationv1.SelfSubjectAccessReviewSpec
		want   authorizationv1.SubjectAccessReviewStatus
	}{
		{"allowed", authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: podsIn("blue", "get")},
			authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: because}},
		{"other verb", authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: podsIn("blue", "delete")},
			authorizationv1.SubjectAccessReviewStatus{}},
		{"other namespace", authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: podsIn("red", "get")},
			authorizationv1.SubjectAccessReviewStatus{}},
		{"URL", authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/openapi/v3"}},
			authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: `RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"`}},
	} {
		got, err := u.ann.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: tt.spec}, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("%s: %v", tt.reason, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Status); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}

func (u users) testSubjectAccessReview(t *testing.T) {
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "ann", ResourceAttributes: podsIn("blue", "get")}}
	got, err := u.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), question, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: because}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if _, err := u.ann.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), question, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("asking about others without the right to: %v", err)
	}
	question.Spec = authorizationv1.SubjectAccessReviewSpec{}
	_, err = u.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), question, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("asking nothing: %v", err)
	}
}

func (u users) testLocalSubjectAccessReview(t *testing.T) {
	if _, err := u.admin.AuthorizationV1().LocalSubjectAccessReviews("blue").Create(t.Context(), localReview("red", "get"), metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("asking about another namespace: %v", err)
	}
	question := localReview("blue", "get")
	question.Spec.ResourceAttributes.Namespace = "red"
	if _, err := u.admin.AuthorizationV1().LocalSubjectAccessReviews("blue").Create(t.Context(), question, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("asking about another namespace inside: %v", err)
	}
}

func (u users) testSelfSubjectRulesReview(t *testing.T) {
	got, err := u.ann.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "blue"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, rule := range got.Status.ResourceRules {
		found = found || cmp.Equal(rule, authorizationv1.ResourceRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	if !found {
		t.Errorf("the right to read pods is not in %+v", got.Status.ResourceRules)
	}
	if len(got.Status.NonResourceRules) == 0 || got.Status.Incomplete || got.Status.EvaluationError != "" {
		t.Errorf("status = %+v", got.Status)
	}
}
