// Package reviews has the validation of the reviews of authorization.k8s.io and
// authentication.k8s.io.
package reviews

import (
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme registers the reviews in v1. The v1 types are also the internal types, so
// conversions are not needed.
func AddToScheme(scheme *runtime.Scheme) error {
	err := addGroup(scheme, authorizationv1.SchemeGroupVersion,
		&authorizationv1.SubjectAccessReview{},
		&authorizationv1.SelfSubjectAccessReview{},
		&authorizationv1.LocalSubjectAccessReview{},
		&authorizationv1.SelfSubjectRulesReview{},
	)
	if err != nil {
		return err
	}
	err = addGroup(scheme, authenticationv1.SchemeGroupVersion,
		&authenticationv1.SelfSubjectReview{},
		&authenticationv1.TokenRequest{},
		&authenticationv1.TokenReview{},
	)
	scheme.AddTypeDefaultingFunc(&authenticationv1.TokenRequest{}, func(obj any) {
		defaultTokenRequest(obj.(*authenticationv1.TokenRequest))
	})
	return err
}

func addGroup(scheme *runtime.Scheme, v1 schema.GroupVersion, kinds ...runtime.Object) error {
	scheme.AddKnownTypes(v1, kinds...)
	scheme.AddKnownTypes(schema.GroupVersion{Group: v1.Group, Version: runtime.APIVersionInternal}, kinds...)
	metav1.AddToGroupVersion(scheme, v1)
	if err := scheme.SetVersionPriority(v1); err != nil {
		return fmt.Errorf("ordering the versions of %s: %w", v1.Group, err)
	}
	return nil
}
