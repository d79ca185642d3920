package authentication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	testclock "k8s.io/utils/clock/testing"
)

func newReview(t *testing.T, now time.Time) rest.Creater {
	t.Helper()
	group, err := NewAPIGroup(Options{Clock: testclock.NewFakePassiveClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	return group.VersionedResourcesStorageMap["v1"]["selfsubjectreviews"].(rest.Creater)
}

func TestSelfSubjectReview(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		reason string
		user   *user.DefaultInfo
		want   authenticationv1.UserInfo
	}{
		{"all that is known", &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v", "w"}}},
			authenticationv1.UserInfo{Username: "ann", UID: "7", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v", "w"}}}},
		{"the name alone", &user.DefaultInfo{Name: "ann"}, authenticationv1.UserInfo{Username: "ann"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			ctx := genericapirequest.WithUser(t.Context(), tt.user)
			got, err := newReview(t, now).Create(ctx, &authenticationv1.SelfSubjectReview{}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := &authenticationv1.SelfSubjectReview{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)},
				Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: tt.want},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("review (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSelfSubjectReviewRefused(t *testing.T) {
	ann := genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: "ann"})
	refused := errors.New("no")
	tests := []struct {
		reason   string
		ctx      context.Context
		obj      runtime.Object
		admitErr error
		want     func(error) bool
	}{
		{"not the right kind", ann, &authorizationv1.SubjectAccessReview{}, nil, apierrors.IsBadRequest},
		{"no user", context.Background(), &authenticationv1.SelfSubjectReview{}, nil, apierrors.IsBadRequest},
		{"admission", ann, &authenticationv1.SelfSubjectReview{}, refused, func(err error) bool { return errors.Is(err, refused) }},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			admit := func(context.Context, runtime.Object) error { return tt.admitErr }
			if _, err := newReview(t, time.Time{}).Create(tt.ctx, tt.obj, admit, nil); !tt.want(err) {
				t.Errorf("error = %v", err)
			}
		})
	}
}
