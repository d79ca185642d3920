package grant

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unbind removes the subjects of want from the stored binding, and the binding
// with its last subject.
func unbind(ctx context.Context, c client.Client, want client.Object) (result change, err error) {
	err = retry.OnError(patience(), apierrors.IsConflict, func() error {
		stored := emptyLike(want)
		err := c.Get(ctx, client.ObjectKeyFromObject(want), stored)
		if apierrors.IsNotFound(err) {
			result = absent
			return nil
		}
		if err != nil {
			return err
		}
		subjects, leaving := subjectsOf(stored), *subjectsOf(want)
		left := slices.DeleteFunc(slices.Clone(*subjects), func(s rbacv1.Subject) bool {
			return slices.ContainsFunc(leaving, func(l rbacv1.Subject) bool { return same(s, l) })
		})
		switch {
		case len(left) == len(*subjects):
			result = unchanged
			return nil
		case len(left) == 0:
			result = deleted
			version := stored.GetResourceVersion()
			return c.Delete(ctx, stored, client.Preconditions{ResourceVersion: &version})
		}
		*subjects, result = left, configured
		return c.Update(ctx, stored)
	})
	return result, err
}

func subjectsOf(binding client.Object) *[]rbacv1.Subject {
	switch binding := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &binding.Subjects
	case *rbacv1.RoleBinding:
		return &binding.Subjects
	}
	return nil
}

// drop deletes the role of a deleted binding, unless another binding refers to it. It
// keeps the role if the caller may not list bindings.
func drop(ctx context.Context, c client.Client, role client.Object) (change, error) {
	bound, err := isBound(ctx, c, role)
	if bound || apierrors.IsForbidden(err) {
		return kept, nil
	}
	if err != nil {
		return "", err
	}
	err = c.Delete(ctx, role)
	if apierrors.IsNotFound(err) {
		return absent, nil
	}
	return deleted, err
}

// isBound reports whether a binding with another name refers to the role.
func isBound(ctx context.Context, c client.Client, role client.Object) (bool, error) {
	kind := role.GetObjectKind().GroupVersionKind().Kind
	refers := func(binding string, ref rbacv1.RoleRef) bool {
		return binding != role.GetName() && ref.Kind == kind && ref.Name == role.GetName()
	}
	inNamespaces := &rbacv1.RoleBindingList{}
	if err := c.List(ctx, inNamespaces, client.InNamespace(role.GetNamespace())); err != nil {
		return false, err
	}
	if slices.ContainsFunc(inNamespaces.Items, func(b rbacv1.RoleBinding) bool { return refers(b.Name, b.RoleRef) }) {
		return true, nil
	}
	if role.GetNamespace() != "" {
		return false, nil
	}
	ofCluster := &rbacv1.ClusterRoleBindingList{}
	if err := c.List(ctx, ofCluster); err != nil {
		return false, err
	}
	return slices.ContainsFunc(ofCluster.Items, func(b rbacv1.ClusterRoleBinding) bool { return refers(b.Name, b.RoleRef) }), nil
}
