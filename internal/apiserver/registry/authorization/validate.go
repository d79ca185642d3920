package authorization

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/certplane/certplane/internal/api/reviews"
)

func validateSubjectAccess(_ context.Context, question *authorizationv1.SubjectAccessReview) error {
	return invalid(reviews.ValidateSubjectAccessReview(question))
}

func validateSelfSubjectAccess(ctx context.Context, question *authorizationv1.SelfSubjectAccessReview) error {
	if err := invalid(reviews.ValidateSelfSubjectAccessReview(question)); err != nil {
		return err
	}
	return requireUser(ctx)
}

func validateLocalSubjectAccess(ctx context.Context, question *authorizationv1.LocalSubjectAccessReview) error {
	if err := invalid(reviews.ValidateLocalSubjectAccessReview(question)); err != nil {
		return err
	}
	if namespace := genericapirequest.NamespaceValue(ctx); namespace == "" || namespace != question.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", namespace))
	}
	return nil
}

func validateSelfSubjectRules(ctx context.Context, question *authorizationv1.SelfSubjectRulesReview) error {
	if err := requireUser(ctx); err != nil {
		return err
	}
	if question.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	return nil
}

func requireUser(ctx context.Context) error {
	if _, ok := genericapirequest.UserFrom(ctx); !ok {
		return apierrors.NewBadRequest("no user present on request")
	}
	return nil
}

// invalid returns an error with the group but without the kind, as Kubernetes
// does.
func invalid(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}
