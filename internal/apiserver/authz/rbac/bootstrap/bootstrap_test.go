package bootstrap

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	rbacapi "github.com/certplane/certplane/internal/api/rbac"
	"github.com/certplane/certplane/internal/rights"
)

func TestObjectsAreValid(t *testing.T) {
	names := map[string]bool{}
	for _, role := range ClusterRoles() {
		if names[role.Name] {
			t.Errorf("ClusterRole %s is listed twice", role.Name)
		}
		names[role.Name] = true
		if errs := rbacapi.Validate(role); len(errs) > 0 {
			t.Errorf("ClusterRole %s: %v", role.Name, errs)
		}
		checkMarks(t, role)
	}
	for _, binding := range ClusterRoleBindings() {
		if !names[binding.RoleRef.Name] {
			t.Errorf("ClusterRoleBinding %s is to ClusterRole %s, which does not exist", binding.Name, binding.RoleRef.Name)
		}
		if errs := rbacapi.Validate(binding); len(errs) > 0 {
			t.Errorf("ClusterRoleBinding %s: %v", binding.Name, errs)
		}
		checkMarks(t, binding)
	}
}

func checkMarks(t *testing.T, obj metav1.Object) {
	t.Helper()
	if obj.GetLabels()["kubernetes.io/bootstrapping"] != "rbac-defaults" {
		t.Errorf("%s has no bootstrapping label", obj.GetName())
	}
	if obj.GetAnnotations()["rbac.authorization.kubernetes.io/autoupdate"] != "true" {
		t.Errorf("%s has no autoupdate annotation", obj.GetName())
	}
}

// describe formats rules as lines of verbs, resources in their group, and
// names.
func describe(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		verbs := slices.Sorted(slices.Values(r.Verbs))
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				line := strings.Join(verbs, ",") + " " + resource + "." + group
				for _, name := range slices.Sorted(slices.Values(r.ResourceNames)) {
					line += " " + name
				}
				out = append(out, line)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestCertificateRoles(t *testing.T) {
	const signers = " signers.certificates.k8s.io kubernetes.io/"
	tests := []struct {
		role     string
		want     []string
		subjects []string
	}{
		{"system:node-bootstrapper", []string{"create,get,list,watch certificatesigningrequests.certificates.k8s.io"}, nil},
		{"system:certificates.k8s.io:certificatesigningrequests:nodeclient", []string{"create certificatesigningrequests/nodeclient.certificates.k8s.io"}, nil},
		{"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", []string{"create certificatesigningrequests/selfnodeclient.certificates.k8s.io"}, nil},
		{"system:certificates.k8s.io:legacy-unknown-approver", []string{"approve" + signers + "legacy-unknown"}, nil},
		{"system:certificates.k8s.io:kubelet-serving-approver", []string{"approve" + signers + "kubelet-serving"}, nil},
		{"system:certificates.k8s.io:kube-apiserver-client-approver", []string{"approve" + signers + "kube-apiserver-client"}, nil},
		{"system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", []string{"approve" + signers + "kube-apiserver-client-kubelet"}, nil},
		{"certplane-view", []string{
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"get,list,watch clustertrustbundles.certificates.k8s.io",
			"get,list,watch podcertificaterequests.certificates.k8s.io",
			"get,list,watch signers.certplane.dev",
		}, nil},
		{"certplane-requester", []string{"create,get,list,watch certificatesigningrequests.certificates.k8s.io"}, nil},
		{"certplane-approver", []string{
			"create subjectaccessreviews.authorization.k8s.io",
			"get,list,watch certificatepolicies.certplane.dev",
			"get,list,watch certificatepolicyexceptions.certplane.dev",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"get,list,watch signers.certplane.dev",
			"patch,update certificatesigningrequests/approval.certificates.k8s.io",
		}, nil},
		{"certplane-certificaterequest-approver", []string{
			"get,list,watch certificaterequests.cert-manager.io",
			"get,list,watch events.events.k8s.io",
			"get,list,watch issuers.cert-manager.io",
			"patch,update certificaterequests/status.cert-manager.io",
		}, nil},
		{"certplane-revoker", []string{
			"create,get,list,watch revocations.certplane.dev",
			"get,list,watch certificatedecisions.inventory.certplane.dev",
			"get,list,watch issuedcertificates.inventory.certplane.dev",
		}, nil},
		{"certplane-auditor", []string{
			"create subjectaccessreviews.authorization.k8s.io",
			"get,list,watch acmeaccounts.certplane.dev",
			"get,list,watch acmeendpoints.certplane.dev",
			"get,list,watch acmeexternalkeys.certplane.dev",
			"get,list,watch acmeorders.certplane.dev",
			"get,list,watch certificatedecisions.inventory.certplane.dev",
			"get,list,watch certificatepolicies.certplane.dev",
			"get,list,watch certificatepolicyexceptions.certplane.dev",
			"get,list,watch certificaterequestpolicies.policy.cert-manager.io",
			"get,list,watch certificaterequests.cert-manager.io",
			"get,list,watch certificates.cert-manager.io",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"get,list,watch challenges.acme.cert-manager.io",
			"get,list,watch clusterissuers.cert-manager.io",
			"get,list,watch clusterrolebindings.rbac.authorization.k8s.io",
			"get,list,watch clusterroles.rbac.authorization.k8s.io",
			"get,list,watch clustertrustbundles.certificates.k8s.io",
			"get,list,watch events.events.k8s.io",
			"get,list,watch issuedcertificates.inventory.certplane.dev",
			"get,list,watch issuers.cert-manager.io",
			"get,list,watch orders.acme.cert-manager.io",
			"get,list,watch podcertificaterequests.certificates.k8s.io",
			"get,list,watch revocations.certplane.dev",
			"get,list,watch rolebindings.rbac.authorization.k8s.io",
			"get,list,watch roles.rbac.authorization.k8s.io",
			"get,list,watch signers.certplane.dev",
			"get,list,watch trustbundles.certplane.dev",
		}, nil},
		{"certplane-acme-edit", []string{
			"create,delete,deletecollection,patch,update acmeexternalkeys.certplane.dev",
			"delete,deletecollection acmeorders.certplane.dev",
		}, nil},
		{"system:controller:acme-server", []string{
			"create acmeaccounts.certplane.dev",
			"create acmeorders.certplane.dev",
			"create revocations.certplane.dev",
			"create subjectaccessreviews.authorization.k8s.io",
			"create,delete,get,list,update,watch acmeaccountkeys.certplane.dev",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get clusterissuers.cert-manager.io",
			"get issuers.cert-manager.io",
			"get serviceaccounts.",
			"get,list,watch acmeaccounts.certplane.dev",
			"get,list,watch acmeendpoints.certplane.dev",
			"get,list,watch acmeexternalkeys.certplane.dev",
			"get,list,watch acmeorders.certplane.dev",
			"get,list,watch signers.certplane.dev",
			"patch,update acmeaccounts/status.certplane.dev",
			"patch,update acmeexternalkeys/status.certplane.dev",
			"patch,update acmeorders/status.certplane.dev",
			"serve acmeendpoints.certplane.dev",
			"update acmeendpoints/status.certplane.dev",
		}, []string{"ServiceAccount kube-system/acme-server"}},
		{"system:controller:certificate-controller", []string{
			"approve" + signers + "kube-apiserver-client-kubelet",
			"create subjectaccessreviews.authorization.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"delete,get,list,watch certificatesigningrequests.certificates.k8s.io",
			"sign" + signers + "kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
			"update certificatesigningrequests/approval.certificates.k8s.io",
			"update certificatesigningrequests/status.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/certificate-controller"}},
		{"system:controller:csr-approver", []string{
			"approve" + signers + "kube-apiserver-client-kubelet",
			"create subjectaccessreviews.authorization.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"update certificatesigningrequests/approval.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/csr-approver"}},
		{"system:controller:csr-signer", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"patch,update certificatesigningrequests/status.certificates.k8s.io",
			"sign" + signers + "kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
		}, []string{"ServiceAccount kube-system/csr-signer"}},
		{"system:controller:cert-manager-certificates", []string{
			"create,delete,get certificaterequests.cert-manager.io",
			"create,delete,get,list,patch,watch secrets.",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get certificates.cert-manager.io",
			"get clusterissuers.cert-manager.io",
			"get issuers.cert-manager.io",
			"list,watch revocations.certplane.dev",
			"update certificates/finalizers.cert-manager.io",
			"update certificates/status.cert-manager.io",
		}, []string{"ServiceAccount kube-system/cert-manager-certificates"}},
		{"system:controller:controller-cache", []string{
			"get,list,watch acmeaccountkeys.certplane.dev",
			"get,list,watch acmeaccounts.certplane.dev",
			"get,list,watch acmeendpoints.certplane.dev",
			"get,list,watch acmeexternalkeys.certplane.dev",
			"get,list,watch acmeorders.certplane.dev",
			"get,list,watch certificaterequests.cert-manager.io",
			"get,list,watch certificates.cert-manager.io",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"get,list,watch challenges.acme.cert-manager.io",
			"get,list,watch clusterissuers.cert-manager.io",
			"get,list,watch clusterroles.rbac.authorization.k8s.io",
			"get,list,watch configmaps. kube-root-ca.crt",
			"get,list,watch issuers.cert-manager.io",
			"get,list,watch namespaces.",
			"get,list,watch nodes.",
			"get,list,watch orders.acme.cert-manager.io",
			"get,list,watch podcertificaterequests.certificates.k8s.io",
			"get,list,watch pods.",
			"get,list,watch serviceaccounts.",
			"get,list,watch serviceaccounts.",
			"get,list,watch serviceaccounts. default",
			"get,list,watch services.",
			"get,list,watch signers.certplane.dev",
		}, []string{"ServiceAccount kube-system/controller-cache"}},
		{"system:controller:signer-manager", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get signers.certplane.dev",
			"list clustertrustbundles.certificates.k8s.io",
			"patch,update signers/status.certplane.dev",
		}, []string{"ServiceAccount kube-system/signer-manager"}},
		{"system:controller:declared-signer", []string{
			"create subjectaccessreviews.authorization.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get certificatesigningrequests.certificates.k8s.io",
			"get namespaces.",
			"get nodes.",
			"get podcertificaterequests.certificates.k8s.io",
			"get pods.",
			"get serviceaccounts.",
			"patch,update certificatesigningrequests/status.certificates.k8s.io",
			"patch,update podcertificaterequests/status.certificates.k8s.io",
			"sign signers.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/declared-signer"}},
		{"system:controller:cert-manager-issuers", []string{
			"create,get,list,update,watch secrets.",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"update clusterissuers/status.cert-manager.io",
			"update issuers/status.cert-manager.io",
		}, []string{"ServiceAccount kube-system/cert-manager-issuers"}},
		{"system:controller:cert-manager-certificaterequests", []string{
			"create,delete,get,list orders.acme.cert-manager.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get certificates.cert-manager.io",
			"get certificatesigningrequests.certificates.k8s.io",
			"get,list,watch revocations.certplane.dev",
			"get,list,watch secrets.",
			"get,patch certificaterequests.cert-manager.io",
			"patch,update certificaterequests/status.cert-manager.io",
			"update certificaterequests/finalizers.cert-manager.io",
			"update revocations/status.certplane.dev",
		}, []string{"ServiceAccount kube-system/cert-manager-certificaterequests"}},
		{"system:controller:cert-manager-certificatesigningrequests", []string{
			"create subjectaccessreviews.authorization.k8s.io",
			"create,delete,get,list orders.acme.cert-manager.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch secrets.",
			"get,patch certificatesigningrequests.certificates.k8s.io",
			"sign signers.certificates.k8s.io clusterissuers.cert-manager.io/* issuers.cert-manager.io/*",
			"update certificatesigningrequests/finalizers.certificates.k8s.io",
			"update certificatesigningrequests/status.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/cert-manager-certificatesigningrequests"}},
		{"system:controller:cert-manager-orders", []string{
			"create,delete,get,list challenges.acme.cert-manager.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get orders.acme.cert-manager.io",
			"get,list,watch secrets.",
			"update orders/finalizers.acme.cert-manager.io",
			"update orders/status.acme.cert-manager.io",
		}, []string{"ServiceAccount kube-system/cert-manager-orders"}},
		{"system:controller:cert-manager-challenges", []string{
			"create routes/custom-host.route.openshift.io",
			"create,delete,get,list,patch ingresses.networking.k8s.io",
			"create,delete,list pods.",
			"create,delete,list services.",
			"create,delete,list,patch httproutes.gateway.networking.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get namespaces.",
			"get,list,watch secrets.",
			"get,update challenges.acme.cert-manager.io",
			"update challenges/finalizers.acme.cert-manager.io",
			"update challenges/status.acme.cert-manager.io",
		}, []string{"ServiceAccount kube-system/cert-manager-challenges"}},
		{"system:controller:cert-manager-certificaterequests-approver", []string{
			"approve signers.cert-manager.io clusterissuers.cert-manager.io/* issuers.cert-manager.io/*",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch leases.coordination.k8s.io policy.cert-manager.io",
			"update certificaterequests/status.cert-manager.io",
		}, []string{"ServiceAccount kube-system/cert-manager-certificaterequests-approver"}},
		{"system:controller:cert-manager-cainjector", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,patch,watch apiservices.apiregistration.k8s.io",
			"get,list,patch,watch customresourcedefinitions.apiextensions.k8s.io",
			"get,list,patch,watch mutatingwebhookconfigurations.admissionregistration.k8s.io",
			"get,list,patch,watch validatingwebhookconfigurations.admissionregistration.k8s.io",
			"get,list,watch certificates.cert-manager.io",
			"get,list,watch secrets.",
		}, []string{"ServiceAccount kube-system/cert-manager-cainjector"}},
		{"system:controller:trust-bundle-writer", []string{
			"create,delete,get,list,update,watch clustertrustbundles.certificates.k8s.io",
			"create,delete,get,list,update,watch configmaps.",
			"create,delete,get,list,update,watch secrets.",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch clusterissuers.cert-manager.io",
			"get,list,watch issuers.cert-manager.io",
			"get,list,watch trustbundles.certplane.dev",
			"update trustbundles/finalizers.certplane.dev",
			"update trustbundles/status.certplane.dev",
		}, []string{"ServiceAccount kube-system/trust-bundle-writer"}},
		{"system:controller:trust-manager", []string{
			"create,delete,get,list,patch,watch configmaps.",
			"create,delete,get,list,patch,watch secrets.",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch bundles.trust.cert-manager.io",
			"patch bundles/status.trust.cert-manager.io",
			"update bundles/finalizers.trust.cert-manager.io",
		}, []string{"ServiceAccount kube-system/trust-manager"}},
		{"system:controller:node-controller", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch leases.coordination.k8s.io",
			"patch nodes/status.",
		}, []string{"ServiceAccount kube-system/node-controller"}},
		{"system:controller:tokens-controller", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"delete,get,list,update,watch secrets.",
			"get serviceaccounts.",
		}, []string{"ServiceAccount kube-system/tokens-controller"}},
		{"system:controller:signer-installer", []string{
			"create,get,patch signers.certplane.dev acme-hosts agent-hosts kube-apiserver-client-pod server service-dns spiffe",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"list,watch signers.certplane.dev",
		}, []string{"ServiceAccount kube-system/signer-installer"}},
		{"system:controller:definition-installer", []string{
			"create,patch customresourcedefinitions.apiextensions.k8s.io acmeaccountkeys.certplane.dev acmeaccounts.certplane.dev acmeendpoints.certplane.dev acmeexternalkeys.certplane.dev acmeorders.certplane.dev bundles.trust.cert-manager.io certificatepolicies.certplane.dev certificatepolicyexceptions.certplane.dev " +
				"certificaterequestpolicies.policy.cert-manager.io certificaterequests.cert-manager.io certificates.cert-manager.io " +
				"challenges.acme.cert-manager.io clusterissuers.cert-manager.io issuers.cert-manager.io orders.acme.cert-manager.io revocations.certplane.dev signers.certplane.dev trustbundles.certplane.dev",
			"get,list,watch customresourcedefinitions.apiextensions.k8s.io",
		}, []string{"ServiceAccount kube-system/definition-installer"}},
		{"system:cluster-trust-bundle-discovery", []string{"get,list,watch clustertrustbundles.certificates.k8s.io"}, []string{"Group /system:serviceaccounts"}},
		{"system:controller:kube-apiserver-serving-clustertrustbundle-publisher", []string{
			"attest" + signers + "kube-apiserver-serving",
			"create,delete,list,update,watch clustertrustbundles.certificates.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
		}, []string{"ServiceAccount kube-system/kube-apiserver-serving-clustertrustbundle-publisher"}},
		{"system:controller:csr-webhook-signer", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"get,list,watch certificatesigningrequests.certificates.k8s.io",
			"patch,update certificatesigningrequests/status.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/csr-webhook-signer"}},
		{"system:controller:csr-cleaner", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"delete certificatesigningrequests.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/csr-cleaner"}},
		{"system:controller:podcertificaterequestcleaner", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"delete,get,list,watch podcertificaterequests.certificates.k8s.io",
		}, []string{"ServiceAccount kube-system/podcertificaterequestcleaner"}},
		{"system:controller:root-ca-cert-publisher", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"create,update configmaps.",
		}, []string{"ServiceAccount kube-system/root-ca-cert-publisher"}},
		{"system:controller:trust-bundle-publisher", []string{
			"attest signers.certificates.k8s.io",
			"create,delete,list,update,watch clustertrustbundles.certificates.k8s.io",
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
		}, []string{"ServiceAccount kube-system/trust-bundle-publisher"}},
		{"system:controller:clusterrole-aggregation-controller", []string{
			"escalate,get,list,patch,update,watch clusterroles.rbac.authorization.k8s.io",
		}, []string{"ServiceAccount kube-system/clusterrole-aggregation-controller"}},
		{"system:controller:namespace-controller", []string{
			"delete,deletecollection,get,list *.*",
			"get,list,watch namespaces.",
			"update namespaces/finalize.",
			"update namespaces/status.",
		}, []string{"ServiceAccount kube-system/namespace-controller"}},
		{"system:controller:service-account-controller", []string{
			"create serviceaccounts.",
		}, []string{"ServiceAccount kube-system/service-account-controller"}},
		{"system:controller:generic-garbage-collector", []string{
			"create,patch,update events.",
			"create,patch,update events.events.k8s.io",
			"delete,get,list,patch,update,watch *.*",
		}, []string{"ServiceAccount kube-system/generic-garbage-collector"}},
		{"system:controller:validatingadmissionpolicy-status-controller", []string{
			"get,list,watch validatingadmissionpolicies.admissionregistration.k8s.io",
			"get,patch,update validatingadmissionpolicies/status.admissionregistration.k8s.io",
		}, []string{"ServiceAccount kube-system/validatingadmissionpolicy-status-controller"}},
		{"cluster-admin", []string{"* *.*"}, []string{"Group /system:masters"}},
	}
	roles, subjects := map[string][]string{}, map[string][]string{}
	for _, role := range ClusterRoles() {
		roles[role.Name] = describe(role.Rules)
	}
	for _, binding := range ClusterRoleBindings() {
		for _, s := range binding.Subjects {
			subjects[binding.RoleRef.Name] = append(subjects[binding.RoleRef.Name], s.Kind+" "+s.Namespace+"/"+s.Name)
		}
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, roles[tt.role]); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.subjects, subjects[tt.role]); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnControllersDoNotApproveWhatTheySign(t *testing.T) {
	for _, c := range rights.Controllers() {
		if c.Account == "certificate-controller" {
			continue // kube-controller-manager's, whose name and rules are fixed
		}
		verbs := map[string]bool{}
		for _, rule := range c.Rules {
			for _, verb := range rule.Verbs {
				verbs[verb] = true
			}
		}
		if verbs["approve"] && verbs["sign"] {
			t.Errorf("%s may both approve and sign", c.Account)
		}
	}
}

func TestSystemNodeIsBoundToNobody(t *testing.T) {
	i := slices.IndexFunc(ClusterRoleBindings(), func(b *rbacv1.ClusterRoleBinding) bool { return b.Name == "system:node" })
	if i < 0 {
		t.Fatal("there is no binding system:node")
	}
	if got := ClusterRoleBindings()[i].Subjects; len(got) != 0 {
		t.Errorf("subjects = %v, want none", got)
	}
}

func TestNamespaceRolesSayNothingAboutCertificates(t *testing.T) {
	for _, role := range rights.Roles() {
		if role.Joins == "" {
			continue
		}
		for _, rule := range role.Rules {
			revoke := slices.Equal(rule.Verbs, []string{"revoke"}) // the certificates of their pods
			if slices.Contains(rule.APIGroups, "certificates.k8s.io") && !revoke {
				t.Errorf("%s: %v", role.Name, rule)
			}
		}
	}
}

// A user who works in a namespace chooses the names of its pods.
func TestNamespaceRolesWithServices(t *testing.T) {
	for _, role := range rights.Roles() {
		want := map[string]string{
			"system:aggregate-to-edit": "create,delete,deletecollection,patch,update services.",
			"system:aggregate-to-view": "get,list,watch services.",
			"system:node":              "get,list,watch services.",
		}[role.Name]
		if got := describe(role.Rules); want != "" && !slices.Contains(got, want) {
			t.Errorf("%s: %v, want %q among them", role.Name, got, want)
		}
	}
}

func TestReconcile(t *testing.T) {
	find := func(name string) *rbacv1.ClusterRole {
		for _, role := range ClusterRoles() {
			if role.Name == name {
				return role
			}
		}
		t.Fatalf("no role %s", name)
		return nil
	}
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"widgets"}}
	changed := func(change func(*rbacv1.ClusterRole)) *rbacv1.ClusterRole {
		role := find("system:basic-user")
		change(role)
		return role
	}
	tests := []struct {
		reason string
		stored *rbacv1.ClusterRole
		want   []string
	}{
		{"missing role is made", nil, describe(find("system:basic-user").Rules)},
		{"missing rules are added", changed(func(r *rbacv1.ClusterRole) { r.Rules = nil }), describe(find("system:basic-user").Rules)},
		{"additions stay", changed(func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, extra) }),
			describe(append(find("system:basic-user").Rules, extra))},
		{"a role that opted out is left alone", changed(func(r *rbacv1.ClusterRole) {
			r.Rules = nil
			r.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
		}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			client := fake.NewClientset()
			if tt.stored != nil {
				client = fake.NewClientset(tt.stored)
			}
			if err := Reconcile(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			got, err := client.RbacV1().ClusterRoles().Get(t.Context(), "system:basic-user", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// Missing rules are added one verb and resource at a time.
			if diff := cmp.Diff(tt.want, describe(got.Rules)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

// A start on existing data reads all roles and bindings of the cluster at once.
func TestReconcileReadsOnce(t *testing.T) {
	client := fake.NewClientset()
	if err := Reconcile(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	if err := Reconcile(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for _, action := range client.Actions() {
		if get, ok := action.(clienttesting.GetAction); ok && get.GetNamespace() == "" && get.GetName() != "system:public-info-viewer" || action.GetVerb() == "create" || action.GetVerb() == "update" {
			t.Errorf("%s %s", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestReconcileKeepsSubjects(t *testing.T) {
	stored := bind("system:monitoring", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"})
	client := fake.NewClientset(stored)
	if err := Reconcile(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	got, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "system:monitoring", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got.Subjects {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"ann", "system:monitoring"}, names); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
}

// Users who could discover the API could read what system:public-info-viewer
// shows before it was a separate role: its binding starts with the same
// subjects, and is not changed afterwards.
func TestReconcilePrimesPublicInfo(t *testing.T) {
	ann := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}
	closed := bind("system:discovery", ann)
	closed.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	closed.Labels["team"] = "a"
	other := bind("system:public-info-viewer")
	other.Annotations = closed.Annotations
	for _, tt := range []struct {
		reason string
		stored []runtime.Object
		want   []rbacv1.Subject
		labels map[string]string
	}{
		{"discovery was closed", []runtime.Object{closed}, []rbacv1.Subject{ann}, closed.Labels},
		{"discovery has more subjects", []runtime.Object{bind("system:discovery", ann)},
			[]rbacv1.Subject{ann, group("system:authenticated"), group("system:unauthenticated")}, other.Labels},
		{"there is one already", []runtime.Object{closed, other}, nil, other.Labels},
		{"a new server", nil, []rbacv1.Subject{group("system:authenticated"), group("system:unauthenticated")}, other.Labels},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			client := fake.NewClientset(tt.stored...)
			for range 2 {
				if err := Reconcile(t.Context(), client); err != nil {
					t.Fatal(err)
				}
			}
			got, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "system:public-info-viewer", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileRetriesConflicts(t *testing.T) {
	for _, tt := range []struct {
		reason    string
		conflicts int
		wantErr   bool
	}{
		{"once", 1, false},
		{"forever", 1000, true},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			stored := bind("system:monitoring")
			client := fake.NewClientset(stored)
			ann, left := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}, tt.conflicts
			client.PrependReactor("update", "clusterrolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
				left--
				if left < 0 {
					return false, nil, nil
				}
				changed := bind(stored.Name, ann) // what another client has written
				if err := client.Tracker().Update(rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), changed, ""); err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(rbacv1.Resource("clusterrolebindings"), stored.Name, errors.New("changed"))
			})
			err := Reconcile(t.Context(), client)
			if apierrors.IsConflict(err) != tt.wantErr || !tt.wantErr && err != nil {
				t.Errorf("Reconcile = %v, want a conflict: %v", err, tt.wantErr)
			}
			got, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), stored.Name, metav1.GetOptions{})
			if err != nil || !slices.Contains(got.Subjects, ann) {
				t.Errorf("subjects %v, error %v, want those that another client has added", got.Subjects, err)
			}
		})
	}
}
