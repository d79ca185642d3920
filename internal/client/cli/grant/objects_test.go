package grant_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/client/cli/grant"
	"github.com/certplane/certplane/internal/client/cli/target"
)

var group = rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team-b"}

// Grants are exactly the rights that their task needs, where they have an
// effect.
func TestObjects(t *testing.T) {
	const (
		readCSRs = "get,list,watch certificatesigningrequests.certificates.k8s.io"
		readCRs  = "get,list,watch certificaterequests.cert-manager.io"
		writeCRs = "patch,update certificaterequests/status.cert-manager.io"

		// What approvers decide under.
		readPolicies, readRequestPolicies = "get,list,watch certificatepolicies.certplane.dev", "get,list,watch certificaterequestpolicies.policy.cert-manager.io"
		readIssuers, readClusterIssuers   = "get,list,watch issuers.cert-manager.io", "get,list,watch clusterissuers.cert-manager.io"
		readInventory                     = "get,list,watch issuedcertificates.inventory.certplane.dev"
		readEvents, askForOthers          = "get,list,watch events.events.k8s.io", "create subjectaccessreviews.authorization.k8s.io"
	)
	for _, tt := range []struct {
		reason                        string
		verb, signer, kind, namespace string
		want                          []string
	}{
		{"requests are the same for all signers", "request", "example.com/web", "", "", []string{
			"ClusterRole certplane:request:certificatesigningrequests", "create,get,list,watch certificatesigningrequests.certificates.k8s.io"}},
		{"those to issuers are in namespaces", "request", "issuers.cert-manager.io/shop.ca", "", "", []string{
			"Role shop/certplane:request:certificaterequests", "create,get,list,watch certificaterequests.cert-manager.io"}},
		{"a ClusterIssuer is for all namespaces", "request", "clusterissuers.cert-manager.io/corp", "", "", []string{
			"ClusterRole certplane:request:certificaterequests", "create,get,list,watch certificaterequests.cert-manager.io"}},
		{"CertificateSigningRequests to an Issuer need a right to refer to it", "request", "issuers.cert-manager.io/shop.ca", "csr", "", []string{
			"Role shop/certplane:request:issuers.cert-manager.io:shop.ca:csr", "reference signers.cert-manager.io ca",
			"ClusterRole certplane:request:issuers.cert-manager.io:shop.ca:csr", "create,get,list,watch certificatesigningrequests.certificates.k8s.io"}},
		{"those to all Issuers, everywhere", "request", "issuers.cert-manager.io/*", "csr", "", []string{
			"ClusterRole certplane:request:issuers.cert-manager.io:*:csr", "create,get,list,watch certificatesigningrequests.certificates.k8s.io",
			"reference signers.cert-manager.io *"}},
		{"those to a ClusterIssuer do not", "request", "clusterissuers.cert-manager.io/corp", "csr", "", []string{
			"ClusterRole certplane:request:certificatesigningrequests", "create,get,list,watch certificatesigningrequests.certificates.k8s.io"}},
		{"approval", "approve", "example.com/web", "", "", []string{
			"ClusterRole certplane:approve:example.com:web", readCSRs, "patch,update certificatesigningrequests/approval.certificates.k8s.io",
			"get,list,watch signers.certplane.dev", "get,list,watch certificatepolicies.certplane.dev", askForOthers, "approve signers.certificates.k8s.io example.com/web",
			"Role default/certplane:approve:example.com:web", readEvents}},
		{"approval for a domain", "approve", "example.com/*", "", "", []string{
			"ClusterRole certplane:approve:example.com:*", readCSRs, "patch,update certificatesigningrequests/approval.certificates.k8s.io",
			"get,list,watch signers.certplane.dev", "get,list,watch certificatepolicies.certplane.dev", askForOthers, "approve signers.certificates.k8s.io example.com/*",
			"Role default/certplane:approve:example.com:*", readEvents}},
		{"approval for an Issuer", "approve", "issuers.cert-manager.io/shop.ca", "", "", []string{
			"Role shop/certplane:approve:issuers.cert-manager.io:shop.ca", readCRs, writeCRs, readIssuers, readEvents,
			"ClusterRole certplane:approve:issuers.cert-manager.io:shop.ca", readPolicies, readRequestPolicies, readClusterIssuers, askForOthers, "approve signers.cert-manager.io issuers.cert-manager.io/shop.ca"}},
		{"approval for a ClusterIssuer", "approve", "clusterissuers.cert-manager.io/corp", "", "", []string{
			"ClusterRole certplane:approve:clusterissuers.cert-manager.io:corp", readCRs, writeCRs,
			readPolicies, readRequestPolicies, readClusterIssuers, askForOthers, readIssuers, readEvents, "approve signers.cert-manager.io clusterissuers.cert-manager.io/corp"}},
		{"in a namespace it is another grant", "approve", "clusterissuers.cert-manager.io/corp", "", "shop", []string{
			"Role shop/certplane:approve:clusterissuers.cert-manager.io:corp:in:shop", readCRs, writeCRs, readIssuers, readEvents,
			"ClusterRole certplane:approve:clusterissuers.cert-manager.io:corp:in:shop", readPolicies, readRequestPolicies, readClusterIssuers, askForOthers, "approve signers.cert-manager.io clusterissuers.cert-manager.io/corp"}},
		{"so it is for another kind", "approve", "issuers.cert-manager.io/shop.ca", "csr", "", []string{
			"ClusterRole certplane:approve:issuers.cert-manager.io:shop.ca:csr", readCSRs, "patch,update certificatesigningrequests/approval.certificates.k8s.io",
			"get,list,watch signers.certplane.dev", "get,list,watch certificatepolicies.certplane.dev", askForOthers, "approve signers.certificates.k8s.io issuers.cert-manager.io/shop.ca",
			"Role default/certplane:approve:issuers.cert-manager.io:shop.ca:csr", readEvents}},
		{"signing", "sign", "example.com/web", "", "", []string{
			"ClusterRole certplane:sign:example.com:web", readCSRs, "patch,update certificatesigningrequests/status.certificates.k8s.io",
			"sign signers.certificates.k8s.io example.com/web"}},
		{"signing for pods", "sign", "example.com/web", "pcr", "", []string{
			"ClusterRole certplane:sign:example.com:web:pcr", "get,list,watch podcertificaterequests.certificates.k8s.io",
			"patch,update podcertificaterequests/status.certificates.k8s.io", "sign signers.certificates.k8s.io example.com/web"}},
		{"signing for issuers is not limited to one", "sign", "sampleissuers.example.com/shop.web", "cr", "shop", []string{
			"Role shop/certplane:sign:certificaterequests", readCRs, writeCRs}},
		{"bundles", "attest", "example.com/web", "", "", []string{
			"ClusterRole certplane:attest:example.com:web", "create,patch,update,get,list,watch clustertrustbundles.certificates.k8s.io",
			"attest signers.certificates.k8s.io example.com/web"}},
		{"revocation", "revoke", "example.com/web", "", "", []string{
			"ClusterRole certplane:revoke:example.com:web", "create,get,list,watch revocations.certplane.dev", readInventory, "revoke signers.certificates.k8s.io example.com/web"}},
		{"revocation of many is another grant", "revoke --many", "example.com/*", "", "", []string{
			"ClusterRole certplane:revoke:example.com:*:many", "create,get,list,watch revocations.certplane.dev", readInventory, "revoke,revokemany signers.certificates.k8s.io example.com/*"}},
		{"revocation for an Issuer", "revoke", "issuers.cert-manager.io/shop.ca", "", "", []string{
			"ClusterRole certplane:revoke:issuers.cert-manager.io:shop.ca", "create,get,list,watch revocations.certplane.dev", readInventory, "revoke signers.cert-manager.io issuers.cert-manager.io/shop.ca",
			"revoke signers.certificates.k8s.io issuers.cert-manager.io/shop.ca"}},
		{"a policy", "use", "web", "", "", []string{"ClusterRole certplane:use:web", "use certificatepolicies.certplane.dev web"}},
		{"overriding a policy", "override", "web", "", "", []string{"ClusterRole certplane:override:web", "override certificatepolicies.certplane.dev web",
			"get,patch certificatesigningrequests.certificates.k8s.io", "get,patch certificaterequests.cert-manager.io"}},
		{"a policy in a namespace", "use", "web", "", "shop", []string{"Role shop/certplane:use:web", "use certificatepolicies.certplane.dev web"}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			verb, many := strings.CutSuffix(tt.verb, " --many")
			parsed, err := target.Parse(verb, tt.signer, tt.kind, tt.namespace)
			parsed.Many = many
			if tt.verb == "use" || tt.verb == "override" {
				parsed, err = target.Policy(tt.verb, tt.signer, tt.namespace)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, texts(t, grant.Objects(parsed, []rbacv1.Subject{group}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// texts returns the name of each role and its rules. Each binding must be to the
// role in front of it.
func texts(t *testing.T, objects []client.Object) []string {
	t.Helper()
	var lines []string
	for i := 0; i < len(objects); i += 2 {
		role, binding := objects[i], objects[i+1]
		var rules []rbacv1.PolicyRule
		var ref rbacv1.RoleRef
		var subjects []rbacv1.Subject
		switch role := role.(type) {
		case *rbacv1.ClusterRole:
			bound := binding.(*rbacv1.ClusterRoleBinding)
			rules, ref, subjects = role.Rules, bound.RoleRef, bound.Subjects
		case *rbacv1.Role:
			bound := binding.(*rbacv1.RoleBinding)
			rules, ref, subjects = role.Rules, bound.RoleRef, bound.Subjects
		}
		kind := role.GetObjectKind().GroupVersionKind().Kind
		if ref.Kind != kind || ref.Name != role.GetName() || binding.GetName() != role.GetName() || binding.GetNamespace() != role.GetNamespace() || len(subjects) != 1 {
			t.Errorf("binding %s/%s is of %v to %v", binding.GetNamespace(), binding.GetName(), ref, subjects)
		}
		lines = append(lines, kind+" "+strings.TrimPrefix(role.GetNamespace()+"/"+role.GetName(), "/"))
		for _, rule := range rules {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s.%s %s", strings.Join(rule.Verbs, ","), rule.Resources[0], rule.APIGroups[0], strings.Join(rule.ResourceNames, ","))))
		}
	}
	return lines
}

func TestSubjects(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		subjects grant.Subjects
		want     string // the subjects, or a part of the error
	}{
		{"of each kind", grant.Subjects{Users: []string{"ann"}, Groups: []string{"CN=b,O=c"}, Accounts: []string{"shop/bot"}}, "User ann, Group CN=b,O=c, ServiceAccount shop/bot"},
		{"kubectl's form of accounts", grant.Subjects{Accounts: []string{"shop:bot"}}, "ServiceAccount shop/bot"},
		{"an account as a user", grant.Subjects{Users: []string{"system:serviceaccount:shop:bot"}}, "ServiceAccount shop/bot"},
		{"nobody", grant.Subjects{}, "name the subjects: --group, --user or --serviceaccount NAMESPACE/NAME"},
		{"an empty group", grant.Subjects{Groups: []string{""}}, "--group is empty"},
		{"an empty user", grant.Subjects{Users: []string{""}}, "--user is empty"},
		{"an account without a namespace", grant.Subjects{Accounts: []string{"bot"}}, `--serviceaccount "bot": want NAMESPACE/NAME, such as shop/builder`},
		{"an account with two", grant.Subjects{Accounts: []string{"a/b/c"}}, `--serviceaccount "a/b/c": want`},
	} {
		var names []string
		parsed, err := tt.subjects.Parse()
		for _, s := range parsed {
			names = append(names, s.Kind+" "+strings.TrimPrefix(s.Namespace+"/"+s.Name, "/"))
		}
		if got := strings.Join(names, ", "); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %s, %v", tt.reason, got, err)
		}
	}
}
