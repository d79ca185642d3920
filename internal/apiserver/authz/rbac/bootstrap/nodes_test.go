package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	rbacapi "github.com/certplane/certplane/internal/api/rbac"
)

// bound maps the roles of nodes to the groups that have them.
func bound(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	found, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]string{}
	for _, binding := range found.Items {
		for _, subject := range binding.Subjects {
			groups[binding.RoleRef.Name] += subject.Name
		}
	}
	return groups
}

func TestNodeBindingsAreValid(t *testing.T) {
	roles := map[string]bool{}
	for _, role := range ClusterRoles() {
		roles[role.Name] = true
	}
	for _, binding := range nodeBindings() {
		if !roles[binding.RoleRef.Name] {
			t.Errorf("ClusterRole %s does not exist", binding.RoleRef.Name)
		}
		if errs := rbacapi.Validate(binding); len(errs) > 0 {
			t.Errorf("ClusterRoleBinding %s: %v", binding.Name, errs)
		}
	}
}

func TestReconcileNodes(t *testing.T) {
	const csr = "system:certificates.k8s.io:certificatesigningrequests:"
	all := map[string]string{
		"system:node-bootstrapper": "system:bootstrappers",
		csr + "nodeclient":         "system:bootstrappers",
		csr + "selfnodeclient":     "system:nodes",
	}
	client := fake.NewClientset()
	steps := []struct {
		reason string
		wanted bool
		want   map[string]string
	}{
		{"off from the start", false, map[string]string{}},
		{"switched on", true, all},
		{"still on", true, all},
		{"switched off", false, map[string]string{}},
	}
	for _, step := range steps {
		if err := ReconcileNodes(t.Context(), client, step.wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, bound(t, client)); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", step.reason, diff)
		}
	}
}

// The changes of an administrator who has taken over a binding are kept.
func TestReconcileNodesLeavesOthersAlone(t *testing.T) {
	mine := bind("system:node-bootstrapper", group("system:bootstrappers:mine"))
	mine.Annotations["rbac.authorization.kubernetes.io/autoupdate"] = "false"
	for _, wanted := range []bool{true, false} {
		client := fake.NewClientset(mine.DeepCopy())
		if err := ReconcileNodes(t.Context(), client, wanted); err != nil {
			t.Fatal(err)
		}
		if got := bound(t, client)["system:node-bootstrapper"]; got != "system:bootstrappers:mine" {
			t.Errorf("wanted is %v: the role is bound to %q", wanted, got)
		}
	}
}
