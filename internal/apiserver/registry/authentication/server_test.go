package authentication_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

func TestServer(t *testing.T) {
	s := apitest.Start(t)
	ann := apitest.Client(t, s.As(t, "ann", "staff"))
	got, err := ann.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.UserInfo{Username: "ann", Groups: []string{"staff", "system:authenticated"}}
	if diff := cmp.Diff(want, got.Status.UserInfo); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
	if got.CreationTimestamp.IsZero() {
		t.Error("the answer has no date")
	}
}
