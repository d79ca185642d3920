package rbac

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestBindingTable(t *testing.T) {
	subjects := []rbacv1.Subject{
		{Kind: "User", Name: "ann"}, {Kind: "Group", Name: "staff"}, {Kind: "User", Name: "ben"},
		{Kind: "ServiceAccount", Namespace: "blue", Name: "robot"},
	}
	list := &rbacv1.ClusterRoleBindingList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c"},
		Items: []rbacv1.ClusterRoleBinding{
			{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: refTo("ClusterRole", "r"), Subjects: subjects},
			{ObjectMeta: metav1.ObjectMeta{Name: "y"}, RoleRef: refTo("ClusterRole", "s")},
		},
	}
	one := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "z", ResourceVersion: "8"}, RoleRef: refTo("Role", "r")}
	tests := []struct {
		reason string
		obj    runtime.Object
		want   [][]any
	}{
		{"list", list, [][]any{
			{"x", "ClusterRole/r", "<unknown>", "ann, ben", "staff", "blue/robot"},
			{"y", "ClusterRole/s", "<unknown>", "", "", ""},
		}},
		{"one", one, [][]any{{"z", "Role/r", "<unknown>", "", "", ""}}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			table, err := bindingTable{noun: "roleBinding"}.ConvertToTable(t.Context(), tt.obj, &metav1.TableOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]any
			for _, row := range table.Rows {
				got = append(got, row.Cells)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("cells (-want +got):\n%s", diff)
			}
			var columns []string
			for _, c := range table.ColumnDefinitions {
				columns = append(columns, c.Name)
			}
			if diff := cmp.Diff([]string{"Name", "Role", "Age", "Users", "Groups", "ServiceAccounts"}, columns); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
			if table.ResourceVersion == "" {
				t.Error("the table has no resource version")
			}
		})
	}

	table, err := bindingTable{}.ConvertToTable(t.Context(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil || len(table.ColumnDefinitions) != 0 || table.Continue != "c" {
		t.Errorf("table without headers = %+v, %v", table, err)
	}
	if _, err := (bindingTable{}).ConvertToTable(t.Context(), &rbacv1.Role{}, nil); err == nil {
		t.Error("no error about a kind that is no binding")
	}
}
