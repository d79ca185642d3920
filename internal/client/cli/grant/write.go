package grant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is the outcome for an object.
type change string

const (
	created    change = "created"
	configured change = "configured"
	unchanged  change = "unchanged"
	deleted    change = "deleted"
	absent     change = "not there"
	kept       change = "kept, because other bindings refer to it"
	unchecked  change = "not checked, because its role does not exist yet"
)

// patience returns the time to retry. API servers may look up the role of a binding in a
// cache, which gets a new role only after a moment.
func patience() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 9}
}

// put creates an object, or completes the stored one. Roles get exactly the wanted rules,
// bindings keep their other subjects.
func put(ctx context.Context, c client.Client, want client.Object) (result change, err error) {
	err = retry.OnError(patience(), isPassing, func() error {
		stored := emptyLike(want)
		err := c.Get(ctx, client.ObjectKeyFromObject(want), stored)
		if apierrors.IsNotFound(err) {
			result = created
			return c.Create(ctx, want.DeepCopyObject().(client.Object))
		}
		if err != nil {
			return err
		}
		next := stored.DeepCopyObject().(client.Object)
		if err := complete(next, want); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(stored, next) {
			result = unchanged
			return nil
		}
		result = configured
		return c.Update(ctx, next)
	})
	return result, err
}

// isPassing reports whether an error is temporary: another client was faster, or a new
// role is not in the cache yet.
func isPassing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || lacksRole(err)
}

// lacksRole reports whether a binding was refused because the server did not find its
// role.
func lacksRole(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	kind := status.Status().Details.Kind
	return strings.HasPrefix(kind, "clusterrole") || strings.HasPrefix(kind, "role")
}

func emptyLike(object client.Object) client.Object {
	switch object.(type) {
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{}
	case *rbacv1.Role:
		return &rbacv1.Role{}
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	default:
		return &rbacv1.RoleBinding{}
	}
}

// complete adds missing parts to a stored object.
func complete(stored, want client.Object) error {
	switch stored := stored.(type) {
	case *rbacv1.ClusterRole:
		stored.Rules = want.(*rbacv1.ClusterRole).Rules
	case *rbacv1.Role:
		stored.Rules = want.(*rbacv1.Role).Rules
	case *rbacv1.ClusterRoleBinding:
		want := want.(*rbacv1.ClusterRoleBinding)
		return bind(&stored.Subjects, want.Subjects, stored.RoleRef, want.RoleRef)
	case *rbacv1.RoleBinding:
		want := want.(*rbacv1.RoleBinding)
		return bind(&stored.Subjects, want.Subjects, stored.RoleRef, want.RoleRef)
	}
	return nil
}

// bind adds the missing subjects to a binding.
func bind(stored *[]rbacv1.Subject, want []rbacv1.Subject, ref, wantRef rbacv1.RoleRef) error {
	if ref.Kind != wantRef.Kind || ref.Name != wantRef.Name {
		return &otherRoleError{ref}
	}
	for _, subject := range want {
		if !slices.ContainsFunc(*stored, func(s rbacv1.Subject) bool { return same(s, subject) }) {
			*stored = append(*stored, subject)
		}
	}
	return nil
}

// otherRoleError reports that a binding refers to another role, which cannot be changed.
type otherRoleError struct{ ref rbacv1.RoleRef }

func (e *otherRoleError) Error() string {
	return fmt.Sprintf("it exists and refers to the %s %s, which cannot be changed", e.ref.Kind, e.ref.Name)
}
