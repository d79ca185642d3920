package bootstrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/certplane/certplane/internal/rights"
)

// delegatedRules formats the role and its subjects.
func delegatedRules(t *testing.T, client kubernetes.Interface) []string {
	t.Helper()
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), delegatedRole, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	rules := describe(role.Rules)
	binding, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), delegatedRole, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range binding.Subjects {
		rules = append(rules, s.Namespace+"/"+s.Name)
	}
	return rules
}

func TestReconcileDelegated(t *testing.T) {
	const account = "kube-system/csr-webhook-signer"
	client := fake.NewClientset()
	steps := []struct {
		reason  string
		signers []string
		want    []string
	}{
		{"none from the start", nil, nil},
		{"two", []string{"example.com/*", "example.org/a"}, []string{"sign signers.certificates.k8s.io example.com/* example.org/a", account}},
		{"another", []string{"example.org/b"}, []string{"sign signers.certificates.k8s.io example.org/b", account}},
		{"none any more", nil, nil},
	}
	for _, step := range steps {
		if err := ReconcileDelegated(t.Context(), client, step.signers); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, delegatedRules(t, client)); diff != "" {
			t.Errorf("%s: rules and account (-want +got):\n%s", step.reason, diff)
		}
	}
}

// The changes of an administrator who has taken over the role are kept.
func TestReconcileDelegatedLeavesOthersAlone(t *testing.T) {
	mine := clusterRole(rights.Role{Name: delegatedRole})
	mine.Annotations["rbac.authorization.kubernetes.io/autoupdate"] = "false"
	for _, signers := range [][]string{nil, {"example.com/a"}} {
		client := fake.NewClientset(mine.DeepCopy(), bind(delegatedRole))
		if err := ReconcileDelegated(t.Context(), client, signers); err != nil {
			t.Fatal(err)
		}
		got, err := client.RbacV1().ClusterRoles().Get(t.Context(), delegatedRole, metav1.GetOptions{})
		if err != nil || len(got.Rules) > 0 {
			t.Errorf("with signers %q the role is %v, %v", signers, got, err)
		}
	}
}
