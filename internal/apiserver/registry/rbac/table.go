package rbac

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// bindingTable prints RoleBindings and ClusterRoleBindings.
type bindingTable struct {
	noun string
}

// ConvertToTable returns a row for each binding in obj.
func (b bindingTable) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	rows, err := metatable.MetaToTableRow(obj, bindingCells)
	if err != nil {
		return nil, fmt.Errorf("printing bindings: %w", err)
	}
	table := &metav1.Table{Rows: rows}
	if opts, ok := options.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		table.ColumnDefinitions = b.columns()
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
		table.Continue = list.GetContinue()
		table.RemainingItemCount = list.GetRemainingItemCount()
	} else if object, err := meta.CommonAccessor(obj); err == nil {
		table.ResourceVersion = object.GetResourceVersion()
	}
	return table, nil
}

func (b bindingTable) columns() []metav1.TableColumnDefinition {
	metadata := metav1.ObjectMeta{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metadata["name"]},
		{Name: "Role", Type: "string", Description: rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]},
		{Name: "Age", Type: "string", Description: metadata["creationTimestamp"]},
		{Name: "Users", Type: "string", Priority: 1, Description: "Users in the " + b.noun},
		{Name: "Groups", Type: "string", Priority: 1, Description: "Groups in the " + b.noun},
		{Name: "ServiceAccounts", Type: "string", Priority: 1, Description: "ServiceAccounts in the " + b.noun},
	}
}

func bindingCells(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
	var ref rbacv1.RoleRef
	var subjects []rbacv1.Subject
	switch obj := obj.(type) {
	case *rbacv1.RoleBinding:
		ref, subjects = obj.RoleRef, obj.Subjects
	case *rbacv1.ClusterRoleBinding:
		ref, subjects = obj.RoleRef, obj.Subjects
	default:
		return nil, fmt.Errorf("unexpected type %T", obj)
	}
	return []any{
		name, ref.Kind + "/" + ref.Name, age,
		namesOf(subjects, rbacv1.UserKind),
		namesOf(subjects, rbacv1.GroupKind),
		namesOf(subjects, rbacv1.ServiceAccountKind),
	}, nil
}

func namesOf(subjects []rbacv1.Subject, kind string) string {
	var names []string
	for _, subject := range subjects {
		switch {
		case subject.Kind != kind:
		case kind == rbacv1.ServiceAccountKind:
			names = append(names, subject.Namespace+"/"+subject.Name)
		default:
			names = append(names, subject.Name)
		}
	}
	return strings.Join(names, ", ")
}
