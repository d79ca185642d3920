package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/manifests"
)

func config(change func(*cluster.Config)) manifests.Config {
	cfg := cluster.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	return manifests.Config{Image: "example.com/certplane:v1", Controllers: cfg}
}

func withCA(c *cluster.Config) { c.Signing.CA.CertFile, c.Signing.CA.KeyFile = "/a", "/b" }

// withCertManager also enables the controllers for cert-manager.io.
func withCertManager(c *cluster.Config) { c.Controllers = []string{"*", "certificates"} }

func write(t *testing.T, cfg manifests.Config) string {
	t.Helper()
	var text bytes.Buffer
	if err := manifests.Write(&text, cfg); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// objects decodes manifests strictly: a field that a kind does not have would
// be silently lost.
func objects(t *testing.T, cfg manifests.Config) []runtime.Object {
	t.Helper()
	return decode(t, write(t, cfg))
}

func decode(t *testing.T, text string) []runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known).UniversalDeserializer()
	var all []runtime.Object
	for i, document := range strings.Split(text, "\n---\n") {
		if i == 0 {
			continue // the heading
		}
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		strict, err := known.New(*kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict([]byte(document), strict); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		all = append(all, object)
	}
	return all
}

// find returns the objects of a type.
func find[T runtime.Object](all []runtime.Object) []T {
	var found []T
	for _, object := range all {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// The definitions are complete and come before the objects that need them.
func TestDefinitions(t *testing.T) {
	all := objects(t, config(withCertManager))
	definitions := find[*apiextensionsv1.CustomResourceDefinition](all)
	if _, first := all[1].(*apiextensionsv1.CustomResourceDefinition); !first || len(definitions) != len(crds.Names()) { // without Bundles, with CertificatePacks
		t.Fatalf("there are %d definitions, and the second object is %T", len(definitions), all[1])
	}
	for _, definition := range definitions {
		version := definition.Spec.Versions[0]
		wanted := 3 // group, kind and name of an issuer
		hasStatus := definition.Name != "acmeaccountkeys.certplane.dev" && definition.Name != "certificatepacks.records.certplane.dev"
		switch definition.Name {
		case "signers.certplane.dev", "acmeorders.certplane.dev":
			wanted = 1
		case "issuers.cert-manager.io", "clusterissuers.cert-manager.io", "certificatepolicies.certplane.dev", "certificatepolicyexceptions.certplane.dev",
			"acmeaccountkeys.certplane.dev", "acmeaccounts.certplane.dev", "acmeendpoints.certplane.dev", "acmeexternalkeys.certplane.dev", "revocations.certplane.dev", "certificatepacks.records.certplane.dev", "trustbundles.certplane.dev":
			wanted = 0
		}
		if (version.Subresources != nil && version.Subresources.Status != nil) != hasStatus || len(version.SelectableFields) != wanted {
			t.Errorf("something of %s is lost: %+v, %v", definition.Name, version.Subresources, version.SelectableFields)
		}
	}
}

// The roles for users of policies and of cert-manager.io are aggregated into the existing
// roles.
func TestUserRoles(t *testing.T) {
	got := map[string][]string{}
	for _, role := range find[*rbacv1.ClusterRole](objects(t, config(func(c *cluster.Config) { c.Controllers = []string{"*", "certificates", "bundles"} }))) {
		for label := range role.Labels {
			if to, joins := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); joins {
				got[role.Name] = append(got[role.Name], to)
			}
		}
	}
	want := map[string][]string{
		"certplane-system:certplane-policy-view": {"view"}, "certplane-system:certplane-acme-view": {"view"}, "certplane-system:certplane-acme-edit": {"edit"},
		"certplane-system:cert-manager-view": {"view"}, "certplane-system:cert-manager-edit": {"edit"},
		"certplane-system:cert-manager-cluster-view": {"cluster-reader"}, "certplane-system:trust-manager-cluster-view": {"cluster-reader"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	if first, second := write(t, config(nil)), write(t, config(nil)); first != second {
		t.Error(cmp.Diff(first, second))
	}
}

func TestEverythingIsInTheNamespace(t *testing.T) {
	for _, text := range []string{
		write(t, config(func(c *cluster.Config) { c.Namespace = "pki" })),
		write(t, config(func(c *cluster.Config) { c.Namespace, c.UseServiceAccountCredentials = "pki", false })),
	} {
		if strings.Contains(text, "certplane-system") {
			t.Errorf("not all is in the namespace:\n%s", text)
		}
	}
}

// Each controller has an account of its own with the rights that the standalone
// server gives it. Only the process may become these accounts.
func TestRights(t *testing.T) {
	all := objects(t, config(nil))
	var accounts []string
	for _, account := range find[*corev1.ServiceAccount](all) {
		if mounted := *account.AutomountServiceAccountToken; mounted != (account.Name == "certplane-controllers") {
			t.Errorf("pods get a token of %s: %v", account.Name, mounted)
		}
		accounts = append(accounts, account.Name)
	}
	accounts = slices.DeleteFunc(accounts, func(name string) bool { return name == "certplane-controllers" })
	if diff := cmp.Diff(config(withCA).Controllers.Accounts(), accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	for _, role := range find[*rbacv1.Role](all) {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "serviceaccounts/token") && !slices.Equal(rule.ResourceNames, accounts) {
				t.Errorf("tokens of %v, want of %v", rule.ResourceNames, accounts)
			}
		}
	}
	for _, role := range find[*rbacv1.ClusterRole](all) {
		checkRole(t, role)
	}
}

func checkRole(t *testing.T, role *rbacv1.ClusterRole) {
	t.Helper()
	if len(role.Rules) == 0 {
		t.Errorf("%s may do nothing", role.Name)
	}
	var verbs []string
	for _, rule := range role.Rules {
		verbs = append(verbs, rule.Verbs...)
		for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
			if slices.Contains(list, "*") {
				t.Errorf("%s may do everything: %v", role.Name, rule)
			}
		}
		if slices.Contains(rule.Resources, "secrets") {
			t.Errorf("%s may see secrets", role.Name)
		}
	}
	if slices.Contains(verbs, "approve") && slices.Contains(verbs, "sign") {
		t.Errorf("%s both approves and signs", role.Name)
	}
}

// Quotas are counted and revocation lists are stored in their own ConfigMaps, and no other is
// written.
func TestLedgerRights(t *testing.T) {
	all := objects(t, config(nil))
	about := func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return !slices.Contains(r.Resources, "configmaps") })
	}
	for _, role := range find[*rbacv1.ClusterRole](all) {
		if got := about(role.Rules); len(got) > 0 {
			t.Errorf("%s may use ConfigMaps of all namespaces: %v", role.Name, got)
		}
	}
	for _, role := range find[*rbacv1.Role](all) {
		var want []rbacv1.PolicyRule
		switch role.Name {
		case rights.WebhookAccount:
			want = rights.ApprovalKeysRules()
		case rights.ApprovalKeys + "-reader":
			want = rights.ApprovalKeysReader().Rules
		case rights.PublishLists.Account:
			want = rights.PublishLists.InNamespace
		case rights.CacheAccount:
			want = []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
				{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "update"}, ResourceNames: policies.LedgerNames()},
			}
		}
		if diff := cmp.Diff(want, about(role.Rules), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", role.Name, role.Namespace, diff)
		}
	}
}

// Rights that only some controllers need are granted only with them.
func TestRightsFollowTheChoice(t *testing.T) {
	tests := []struct {
		reason string
		choice []string
		not    []string
	}{
		{"no publisher by default", []string{"*"}, []string{"root-ca-cert-publisher"}},
		{"cert-manager's kinds are left to cert-manager", []string{"*"}, []string{"webhook.cert-manager.io", "cert-manager-certificates", "certificaterequests-approver"}},
		{"a webhook for nothing", []string{"*", "-signers"}, []string{"certplane-webhook", "webhookconfigurations"}},
		{"no declared signers", []string{"*", "-signers"}, []string{"signer-manager", "declared-signer", "podcertificaterequests/status", "- secrets"}},
		{"no declared signers, policies, revocation lists and records", []string{"*", "-signers", "-policies", "-publishlists", "-record"}, []string{"CustomResourceDefinition"}},
		{"no signer", []string{"*", "-sign", "-signers"}, []string{"csr-signer", "certificatesigningrequests/status", "name: ca\n"}},
		{"no approver", []string{"*", "-approve"}, []string{"csr-approver"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			text := write(t, config(func(c *cluster.Config) { c.Controllers = tc.choice }))
			for _, not := range tc.not {
				if strings.Contains(text, not) {
					t.Errorf("%q is there:\n%s", not, text)
				}
			}
		})
	}
	// Webhooks of policies name resources that no account may write.
	unapproving := objects(t, config(func(c *cluster.Config) { c.Controllers = []string{"*", "-approve"} }))
	for _, resource := range []string{"certificaterequests/status", "certificatesigningrequests/approval"} {
		if got := updaters(unapproving, resource); len(got) > 0 {
			t.Errorf("without approvers, %v may write %s", got, resource)
		}
	}
	for _, role := range find[*rbacv1.ClusterRole](objects(t, config(nil))) {
		for _, rule := range role.Rules {
			certManagers := slices.ContainsFunc(rule.APIGroups, func(group string) bool { return strings.HasSuffix(group, "cert-manager.io") })
			if certManagers && writes(rule) {
				t.Errorf("%s writes objects of cert-manager: %v", role.Name, rule)
			}
		}
	}
	webhooks := write(t, config(func(c *cluster.Config) {
		c.Signing.Webhooks = []webhook.Settings{{SignerName: "example.com/x", URL: "https://a.example", TokenFile: "/etc/certplane/ca/token"}}
	}))
	for _, want := range []string{"  name: csr-webhook-signer\n", "  - example.com/x\n"} {
		if !strings.Contains(webhooks, want) || strings.Contains(webhooks, "csr-signer") {
			t.Errorf("no %q, or a signer with a CA:\n%s", want, webhooks)
		}
	}
	if text := write(t, config(func(c *cluster.Config) { c.Controllers = []string{"publish"} })); !strings.Contains(text, "name: root-ca-cert-publisher\n") {
		t.Errorf("nothing about config maps:\n%s", text)
	}
}

// updaters returns the ClusterRoles that let update a resource.
func updaters(all []runtime.Object, resource string) []string {
	var names []string
	for _, role := range find[*rbacv1.ClusterRole](all) {
		if slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, resource) && writes(rule) }) {
			names = append(names, role.Name)
		}
	}
	return names
}

func writes(rule rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
}

// cainjector reads the Secrets of the cluster, or those of the namespace that is configured.
func TestCAInjectorRights(t *testing.T) {
	secrets := func(rules []rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "secrets") })
	}
	for _, namespace := range []string{"", "hooks"} {
		all := objects(t, config(func(c *cluster.Config) { c.Controllers, c.CAInjector.Namespace = []string{"cainjector"}, namespace }))
		var everywhere, within []string
		for _, role := range find[*rbacv1.ClusterRole](all) {
			if secrets(role.Rules) {
				everywhere = append(everywhere, role.Name)
			}
		}
		for _, role := range find[*rbacv1.Role](all) {
			if secrets(role.Rules) {
				within = append(within, role.Namespace+"/"+role.Name)
			}
		}
		wantEverywhere, wantWithin := []string{"certplane-system:cert-manager-cainjector"}, []string(nil)
		if namespace != "" {
			wantEverywhere, wantWithin = nil, []string{"hooks/certplane-system:cert-manager-cainjector"}
		}
		if !slices.Equal(everywhere, wantEverywhere) || !slices.Equal(within, wantWithin) {
			t.Errorf("%q: Secrets for %v and %v", namespace, everywhere, within)
		}
		if len(find[*apiextensionsv1.CustomResourceDefinition](all)) > 0 {
			t.Errorf("%q: definitions are installed", namespace)
		}
	}
}

// The rights to Secrets that Bundles need follow the configuration.
func TestBundleRights(t *testing.T) {
	for _, test := range []struct {
		reason string
		change func(*cluster.Config)
		want   []string // roles with rights to Secrets, and the verbs and names
	}{
		{"sources only", func(*cluster.Config) {}, []string{"certplane-system/certplane-system:trust-manager-sources get,list,watch "}},
		{"all targets", func(c *cluster.Config) { c.TrustManager.SecretTargets = []string{"All"} },
			[]string{"/certplane-system:trust-manager create,delete,patch,get,list,watch ", "certplane-system/certplane-system:trust-manager-sources get,list,watch "}},
		{"some targets, in one namespace", func(c *cluster.Config) {
			c.TrustManager.SecretTargets, c.TrustManager.TargetNamespaces, c.TrustManager.TrustNamespace = []string{"company"}, []string{"team"}, "roots"
		}, []string{"roots/certplane-system:trust-manager-sources get,list,watch ", "team/certplane-system:trust-manager create,delete,patch,get,list,watch company"}},
	} {
		all := objects(t, config(func(c *cluster.Config) { c.Controllers = []string{"bundles"}; test.change(c) }))
		var got []string
		add := func(m metav1.ObjectMeta, rules []rbacv1.PolicyRule) {
			for _, rule := range rules {
				if slices.Contains(rule.Resources, "secrets") && strings.Contains(m.Name, "trust-manager") {
					got = append(got, m.Namespace+"/"+m.Name+" "+strings.Join(rule.Verbs, ",")+" "+strings.Join(rule.ResourceNames, ","))
				}
			}
		}
		for _, role := range find[*rbacv1.ClusterRole](all) {
			add(role.ObjectMeta, role.Rules)
		}
		for _, role := range find[*rbacv1.Role](all) {
			add(role.ObjectMeta, role.Rules)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", test.reason, got)
		}
		if kinds := find[*apiextensionsv1.CustomResourceDefinition](all); len(kinds) != 1 || kinds[0].Name != "bundles.trust.cert-manager.io" {
			t.Errorf("%s: definitions %v", test.reason, kinds)
		}
	}
}

// With one user for all, the account of the pods has all rights.
func TestOneUser(t *testing.T) {
	all := objects(t, config(func(c *cluster.Config) { c.UseServiceAccountCredentials = false }))
	if accounts := find[*corev1.ServiceAccount](all); len(accounts) != 1 {
		t.Errorf("%d accounts", len(accounts))
	}
	for _, binding := range find[*rbacv1.ClusterRoleBinding](all) {
		if binding.Subjects[0].Name != "certplane-controllers" {
			t.Errorf("%s is for %s", binding.Name, binding.Subjects[0].Name)
		}
	}
}

// The config map has the requested configuration, completed for a pod.
func TestConfiguration(t *testing.T) {
	tests := []struct {
		reason string
		change func(*cluster.Config)
		pod    func(*cluster.Config)
	}{
		{"nothing said", func(*cluster.Config) {}, func(*cluster.Config) {}},
		{"a choice", func(c *cluster.Config) { c.Controllers, c.Namespace = []string{"*", "-approve"}, "pki" }, func(*cluster.Config) {}},
		{"switches that are off", func(c *cluster.Config) {
			c.UseServiceAccountCredentials, c.LeaderElection.LeaderElect = false, false
		}, func(*cluster.Config) {}},
		{"ports", func(c *cluster.Config) { c.Metrics.BindAddress, c.Health.BindAddress = ":1", "0.0.0.0:2" }, func(c *cluster.Config) {
			c.Metrics.BindAddress, c.Health.BindAddress = ":1", "0.0.0.0:2"
		}},
		{"a CA elsewhere", withCA, withCA},
		{"no webhook", func(c *cluster.Config) { c.Controllers = []string{"*", "-signers"} }, func(c *cluster.Config) {
			c.Webhook.BindAddress = cluster.DefaultConfig().Webhook.BindAddress
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			config := find[*corev1.ConfigMap](objects(t, config(tc.change)))[0]
			if err := os.WriteFile(path, []byte(config.Data["config.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := cluster.LoadConfig(path)
			if err != nil {
				t.Fatal(err)
			}
			want := cluster.DefaultConfig()
			tc.change(&want)
			want.Metrics.BindAddress, want.Health.BindAddress, want.Webhook.BindAddress = ":8443", ":8081", ":10250"
			want.Signing.CA.CertFile, want.Signing.CA.KeyFile = "/etc/certplane/ca/tls.crt", "/etc/certplane/ca/tls.key"
			want.ACME.HTTP01.Cluster.SolverImage = "example.com/certplane:v1"
			tc.pod(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods start again with a new configuration, and have the CA's files if they
// are those of the Secret.
func TestPods(t *testing.T) {
	deployment := func(change func(*cluster.Config)) corev1.PodTemplateSpec {
		return find[*appsv1.Deployment](objects(t, config(change)))[0].Spec.Template
	}
	template := deployment(nil)
	if other := deployment(func(c *cluster.Config) { c.Logging.Verbosity = 4 }); cmp.Equal(template.Annotations, other.Annotations) {
		t.Error("a new configuration does not make new pods")
	}
	if len(template.Spec.Volumes) != 2 {
		t.Errorf("volumes %v", template.Spec.Volumes)
	}
	elsewhere := deployment(withCA)
	if len(elsewhere.Spec.Volumes) != 1 {
		t.Errorf("volumes %v", elsewhere.Spec.Volumes)
	}
	if text, err := json.Marshal(template.Spec.Containers[0].SecurityContext); err != nil ||
		string(text) != `{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}` {
		t.Errorf("security context %s", text)
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct {
		reason string
		change func(*cluster.Config)
		want   string
	}{
		{"a file of somebody's host", func(c *cluster.Config) { c.ClientConnection.Kubeconfig = "/k" }, "clientConnection.kubeconfig"},
		{"others' namespace", func(c *cluster.Config) { c.Namespace = "kube-system" }, "namespace: kube-system"},
		{"loopback", func(c *cluster.Config) { c.Metrics.BindAddress = "127.0.0.1:1" }, "metrics.bindAddress"},
		{"loopback by name", func(c *cluster.Config) { c.Health.BindAddress = "localhost:1" }, "health.bindAddress"},
		{"no probes", func(c *cluster.Config) { c.Health.BindAddress = "0" }, "health.bindAddress"},
		{"a port for each pod", func(c *cluster.Config) { c.Health.BindAddress = ":0" }, "health.bindAddress"},
		{"what no process takes", func(c *cluster.Config) { c.Controllers = []string{"x"} }, "controllers"},
		{"a webhook on loopback", func(c *cluster.Config) {
			withCertManager(c)
			c.Webhook.BindAddress = "127.0.0.1:1"
		}, "webhook.bindAddress"},
		{"no namespace", func(c *cluster.Config) { c.Namespace = "" }, "namespace"},
		{"a lease of a program whose work is not done", func(c *cluster.Config) {
			c.LeaderElection.AlsoHold = []controllermanager.OtherLease{{Namespace: "kube-system", Name: "cert-manager-controller"}}
		}, "leaderElection.alsoHold[0].controllers: none of issuers, "},
		{"its own lease", func(c *cluster.Config) {
			c.LeaderElection.AlsoHold = []controllermanager.OtherLease{{Namespace: c.Namespace, Name: "certplane-controllers", Controllers: []string{"clean"}}}
		}, "leaderElection.alsoHold[0]: the Lease certplane-system/certplane-controllers is the process's own"},
		{"a lease in two rows", func(c *cluster.Config) {
			row := controllermanager.OtherLease{Namespace: "a", Name: "b", Controllers: []string{"clean"}}
			c.LeaderElection.AlsoHold = []controllermanager.OtherLease{row, row}
		}, "leaderElection.alsoHold[1]: the Lease a/b is the process's own, or in another row"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			var text bytes.Buffer
			if err := manifests.Write(&text, config(tc.change)); err == nil || !strings.Contains(err.Error(), tc.want) || text.Len() > 0 {
				t.Errorf("error %v after %d bytes, want one with %q", err, text.Len(), tc.want)
			}
		})
	}
}

// An image must be set: otherwise only the cluster would refuse the Deployment.
func TestWriteRefusesNoImage(t *testing.T) {
	cfg := config(nil)
	cfg.Image = ""
	var text bytes.Buffer
	if err := manifests.Write(&text, cfg); err == nil || !strings.Contains(err.Error(), "--image is empty") || text.Len() > 0 {
		t.Errorf("error %v after %d bytes", err, text.Len())
	}
}

// An APIService without an answer blocks the deletion of namespaces: there is none.
func TestNoAPIService(t *testing.T) {
	if text := write(t, config(withCertManager)); strings.Contains(text, "kind: APIService") || !strings.Contains(text, "name: certificatepacks.records.certplane.dev") {
		t.Error("there is an APIService, or no CertificatePacks")
	}
}
