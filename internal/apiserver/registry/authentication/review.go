package authentication

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"
)

var (
	_ rest.Creater              = selfSubjectReview{}
	_ rest.Scoper               = selfSubjectReview{}
	_ rest.SingularNameProvider = selfSubjectReview{}
	_ rest.Storage              = selfSubjectReview{}
)

// selfSubjectReview returns the requesting user as the server sees them.
// Nothing is stored.
type selfSubjectReview struct {
	clock clock.PassiveClock
}

func (selfSubjectReview) New() runtime.Object { return &authenticationv1.SelfSubjectReview{} }

func (selfSubjectReview) Destroy() {}

func (selfSubjectReview) NamespaceScoped() bool { return false }

func (selfSubjectReview) GetSingularName() string { return "selfsubjectreview" }

// Create returns the user of the request. A dry run gets the same answer: a
// review changes nothing.
func (r selfSubjectReview) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	if _, ok := obj.(*authenticationv1.SelfSubjectReview); !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a SelfSubjectReview: %T", obj))
	}
	if admit != nil {
		if err := admit(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	u, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	return &authenticationv1.SelfSubjectReview{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(r.clock.Now())},
		Status:     authenticationv1.SelfSubjectReviewStatus{UserInfo: infoOf(u)},
	}, nil
}

func infoOf(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for key, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
