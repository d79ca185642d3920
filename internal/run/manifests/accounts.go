package manifests

import (
	"cmp"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/controller/bundles"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

// accountObjects are the service accounts and their rights. The account of the
// process may lead, check access to metrics, and become the accounts of its
// controllers. Those have the rights that their controller needs. Cluster-wide
// objects are named after the namespace, so that there can be two
// installations, one that approves and one that signs.
func accountObjects(cfg cluster.Config) []runtime.Object {
	objects := []runtime.Object{serviceAccount(cfg.Namespace, name, true)}
	for _, account := range cfg.Accounts() {
		if cfg.UseServiceAccountCredentials {
			objects = append(objects, serviceAccount(cfg.Namespace, account, false))
		}
	}
	for _, account := range cfg.Accounts() {
		role := cfg.Namespace + ":" + account
		objects = append(objects, clusterRole(role, rulesOf(cfg, account)), bindCluster(role, role, subject(cfg, account)))
	}
	for _, c := range rights.Controllers() {
		if len(c.InNamespace) > 0 && slices.Contains(cfg.Accounts(), c.Account) {
			objects = append(objects, bound(cfg.Namespace, c.Account, c.InNamespace, subject(cfg, c.Account))...)
		}
	}
	objects = append(objects, bound(cfg.Namespace, rights.CacheAccount, rights.LedgerRules(policies.LedgerNames()...), subject(cfg, rights.CacheAccount))...)
	if source := cfg.CAInjector.Namespace; source != "" && slices.Contains(cfg.Accounts(), rights.InjectCAs.Account) {
		objects = append(objects, bound(source, cfg.Namespace+":"+rights.InjectCAs.Account, rights.CASourceRules(), subject(cfg, rights.InjectCAs.Account))...)
	}
	objects = append(objects, bundleObjects(cfg)...)
	if cfg.ServesACME() {
		objects = append(objects, bound(cfg.Namespace, rights.ACMEServerAccount, rights.ACMEServerNamespaceRules(), subject(cfg, rights.ACMEServerAccount))...)
	}
	if cfg.ServesRevocations() {
		rules := rights.WebhookSecretRules(cfg.RevocationObjects().Secret)
		objects = append(objects, bound(cfg.Namespace, revocationName, rules, subject(cfg, rights.WebhookAccount))...)
	}
	if cfg.ServesWebhook() {
		secrets, publishes := []string{cfg.WebhookObjects().Secret}, []rbacv1.PolicyRule(nil)
		if cfg.AdmitsPolicies() {
			secrets, publishes = append(secrets, cfg.SealSecret().Name), rights.ApprovalKeysRules()
		}
		rules := append(rights.WebhookSecretRules(secrets...), publishes...)
		objects = append(objects, bound(cfg.Namespace, rights.WebhookAccount, rules, subject(cfg, rights.WebhookAccount))...)
	}
	if cfg.AdmitsPolicies() {
		reader := rights.ApprovalKeysReader()
		everybody := rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: reader.Groups[0]}
		objects = append(objects, bound(cfg.Namespace, reader.Name, reader.Rules, everybody)...)
	}
	own := subject(cfg, name)
	objects = append(objects, bindCluster(cfg.Namespace+":metrics-auth", "system:auth-delegator", own))
	objects = append(objects, bound(cfg.LeaseNamespace(), name+":leader-election", leaderRules(cfg), own)...)
	for _, lease := range cfg.LeaderElection.AlsoHold {
		objects = append(objects, bound(lease.Namespace, cfg.Namespace+":"+lease.Name, rights.OtherLeaseRules(lease.Name), own)...)
	}
	if cfg.UseServiceAccountCredentials {
		objects = append(objects, bound(cfg.Namespace, name+":tokens", tokenRules(cfg), own)...)
	}
	return objects
}

// userRoles are for users of policies and of the ACME server, and for those of cert-manager.io, if that
// is served. Some are aggregated into the roles view, edit and admin that every
// cluster has.
func userRoles(cfg cluster.Config) []runtime.Object {
	roles := append(rights.PolicyRoles(), rights.ACMERoles()...)
	if slices.Contains(cfg.Accounts(), rights.WriteTrustBundles.Account) {
		roles = append(roles, rights.TrustRoles()...)
	}
	if slices.Contains(cfg.Accounts(), rights.SpreadBundles.Account) {
		roles = append(roles, rights.BundleRoles()...)
	}
	if slices.Contains(groups(cfg), cmv1.SchemeGroupVersion.Group) {
		roles = append(roles, rights.CertManagerRoles()...)
	}
	if slices.Contains(groups(cfg), recordsv1alpha1.GroupName) {
		roles = append(roles, rights.RecordsViewer())
	}
	var objects []runtime.Object
	for _, known := range roles {
		role := clusterRole(cfg.Namespace+":"+known.Name, known.Rules)
		if known.Joins != "" {
			role.Labels[known.Joins] = "true"
		}
		objects = append(objects, role)
	}
	return objects
}

// rulesOf returns the rights of an account in the whole cluster.
func rulesOf(cfg cluster.Config, account string) []rbacv1.PolicyRule {
	switch account {
	case rights.CacheAccount:
		return append(rights.CacheRules(cfg.Accounts()...), rights.PolicyRules(cfg.Policy.CertificateRequestPolicies, cfg.Accounts()...)...)
	case rights.WebhookAccount:
		var rules []rbacv1.PolicyRule
		if cfg.ServesWebhook() {
			rules = rights.WebhookRules(cfg.WebhookObjects().Configuration, cfg.AdmitsSigners())
		}
		if cfg.FollowsRevocations() {
			rules = append(rules, rights.RevocationWebhookRules()...)
		}
		return rules
	case rights.SignByWebhook.Account:
		return append(rights.Of(account), rights.DelegatedRule(cfg.Signing.Delegated()...))
	case rights.InjectCAs.Account:
		rules := rights.Of(account)
		if cfg.CAInjector.Namespace != "" { // accountObjects grants the others there
			rules = rules[len(rights.CASourceRules()):]
		}
		return rules
	case rights.SpreadBundles.Account:
		rules := rights.BundleRules()
		if len(cfg.TrustManager.TargetNamespaces) == 0 { // else bundleObjects grants the others
			rules = append(rules, bundleTargetRules(cfg)...)
		}
		return rules
	case rights.WriteTrustBundles.Account:
		return rights.TrustBundleRules(cfg.TrustBundles.SecretTargets)
	default:
		return rights.Of(account)
	}
}

// bundleObjects are the rights to the sources of Bundles, and to their targets if they are
// limited to some namespaces.
func bundleObjects(cfg cluster.Config) []runtime.Object {
	account := rights.SpreadBundles.Account
	if !slices.Contains(cfg.Accounts(), account) {
		return nil
	}
	role, who := cfg.Namespace+":"+account, subject(cfg, account)
	objects := bound(cmp.Or(cfg.TrustManager.TrustNamespace, cfg.Namespace), role+"-sources", rights.BundleSourceRules(), who)
	for _, namespace := range cfg.TrustManager.TargetNamespaces {
		objects = append(objects, bound(namespace, role, bundleTargetRules(cfg), who)...)
	}
	return objects
}

func bundleTargetRules(cfg cluster.Config) []rbacv1.PolicyRule {
	names := cfg.TrustManager.SecretTargets
	return rights.BundleTargetRules(slices.Contains(names, bundles.AllSecretTargets), names...)
}

func leaderRules(cfg cluster.Config) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		// A rule for create cannot be limited to a name.
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{cfg.LeaderElection.ResourceName}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}

func tokenRules(cfg cluster.Config) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: cfg.Accounts(), Verbs: []string{"create"}},
	}
}

// subject is the identity that acts for an account.
func subject(cfg cluster.Config, account string) rbacv1.Subject {
	if !cfg.UseServiceAccountCredentials {
		account = name
	}
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: cfg.Namespace, Name: account}
}

// serviceAccount returns a service account; mounted is true if pods get its token. No pod
// runs as the accounts of controllers.
func serviceAccount(namespace, account string, mounted bool) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   meta(namespace, account),
		AutomountServiceAccountToken: ptr.To(mounted),
	}
}

func clusterRole(role string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: meta("", role),
		Rules:      rules,
	}
}

func bindCluster(binding, role string, who rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: meta("", binding),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{who},
	}
}

// bound is a role in a namespace and its binding.
func bound(namespace, role string, rules []rbacv1.PolicyRule, who rbacv1.Subject) []runtime.Object {
	return []runtime.Object{
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: meta(namespace, role),
			Rules:      rules,
		},
		&rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: meta(namespace, role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects:   []rbacv1.Subject{who},
		},
	}
}
