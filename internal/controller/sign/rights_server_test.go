package sign_test

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var accountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}

// mayAccount returns whether a service account of namespace kube-system has a
// permission.
func (w world) mayAccount(t *testing.T, account, verb, resource, name string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	return w.Allowed(t, "system:serviceaccount:kube-system:"+account, accountGroups, authorizationv1.ResourceAttributes{
		Verb: verb, Group: certificatesv1.GroupName, Resource: resource, Subresource: subresource, Name: name,
	})
}

// testRights checks that the signer has only the rights that it needs.
func (w world) testRights(t *testing.T) {
	tests := []struct {
		verb, resource, name string
		want                 bool
	}{
		{"sign", "signers", signerName, true},
		{"sign", "signers", certificatesv1.KubeAPIServerClientKubeletSignerName, true},
		{"sign", "signers", certificatesv1.KubeletServingSignerName, true},
		{"sign", "signers", "kubernetes.io/legacy-unknown", true},
		{"update", "certificatesigningrequests/status", "x", true},
		{"get", "certificatesigningrequests", "x", true},

		{"sign", "signers", "kubernetes.io/*", false},
		{"sign", "signers", "", false},
		{"sign", "signers", "example.com/signer", false},
		{"approve", "signers", signerName, false},
		{"approve", "signers", certificatesv1.KubeAPIServerClientKubeletSignerName, false},
		{"approve", "signers", "kubernetes.io/*", false},
		{"attest", "signers", signerName, false},
		{"update", "certificatesigningrequests/approval", "x", false},
		{"patch", "certificatesigningrequests/approval", "x", false},
		{"create", "certificatesigningrequests", "", false},
		{"update", "certificatesigningrequests", "x", false},
		{"delete", "certificatesigningrequests", "x", false},
		{"deletecollection", "certificatesigningrequests", "", false},
	}
	for _, tc := range tests {
		if got := w.mayAccount(t, "csr-signer", tc.verb, tc.resource, tc.name); got != tc.want {
			t.Errorf("csr-signer may %s %s %q: %v, want %v", tc.verb, tc.resource, tc.name, got, tc.want)
		}
	}
}

// testSeparation checks that none of our approvers can sign. The
// certificate-controller belongs to a kube-controller-manager that runs as a
// client of the server, and Kubernetes grants it both rights.
func (w world) testSeparation(t *testing.T) {
	bindings, err := w.admin.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var accounts []string
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			if subject.Kind == "ServiceAccount" && subject.Name != "certificate-controller" {
				accounts = append(accounts, subject.Name)
			}
		}
	}
	if !slices.Contains(accounts, "csr-signer") {
		t.Fatalf("accounts %v, want csr-signer among them", accounts)
	}
	signers := []string{
		signerName, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName,
		"kubernetes.io/legacy-unknown", "kubernetes.io/*", "example.com/signer",
	}
	for _, account := range accounts {
		may := func(verb string) bool {
			return slices.ContainsFunc(signers, func(signer string) bool { return w.mayAccount(t, account, verb, "signers", signer) })
		}
		if may("approve") && may("sign") {
			t.Errorf("%s approves and signs", account)
		}
	}
}
