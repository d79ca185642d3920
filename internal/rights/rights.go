// Package rights is the table of the controllers, of the service accounts that
// they act as, and of the rights of these accounts and of users.
package rights

import (
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The namespaces of the service accounts.
const (
	// ServeNamespace is the namespace of the accounts in "certplane serve".
	ServeNamespace = metav1.NamespaceSystem
	// ClusterNamespace is the namespace of the accounts in "certplane
	// controllers", unless another one is configured.
	ClusterNamespace = "certplane-system"
)

// CacheAccount reads the objects that all controllers of a process share.
const CacheAccount = "controller-cache"

// Where is the set of processes in which a controller runs.
type Where string

// Values of Where.
const (
	// Everywhere means in "certplane serve" and in "certplane controllers".
	Everywhere Where = "everywhere"
	// ByName means as Everywhere, but in clusters only if it is named: another
	// controller may do the same there.
	ByName Where = "in clusters only when it is named"
	// OnlyClusters means in clusters only if it is named, and never in "certplane serve",
	// which has no objects that it works for.
	OnlyClusters Where = "only in clusters, when it is named"
	// AlwaysInServe means as Everywhere, but users cannot turn it off in "certplane
	// serve".
	AlwaysInServe Where = "everywhere, always in certplane serve"
	// OnlyServe means always in "certplane serve" and never in clusters, where
	// other controllers do the same.
	OnlyServe Where = "only in certplane serve, always"
	// Peer means in its own process: a part of Kubernetes that can be a client
	// of "certplane serve".
	Peer Where = "a part of Kubernetes"
)

// Controller is a row of the table. Rows must not be modified.
type Controller struct {
	// Name is its name in the configuration. Rows with the same name are chosen together.
	Name string
	// Account is the service account that it acts as.
	Account string
	// Doc describes its work in half a line.
	Doc string
	// Where says where it runs.
	Where Where
	// Groups are the API groups of the kinds that it needs and that clusters do
	// not have by default.
	Groups []string
	// Rules are its account's rights in the whole cluster. If two rows have the
	// same account, one of them has the rules.
	Rules []rbacv1.PolicyRule
	// InNamespace are its account's additional rights in the accounts'
	// namespace only.
	InNamespace []rbacv1.PolicyRule
	// Reads is what the cache that all controllers of a process share reads for
	// it.
	Reads []rbacv1.PolicyRule
}

// Controllers returns all rows. No account of certplane's own both approves and
// signs.
func Controllers() []Controller {
	return []Controller{
		Approve, ApproveByPolicy, Sign, SignByWebhook, FollowSigners, SignDeclared, SignPods, InstallSigners, InstallPolicies, PolicyStatus, RequestPolicyStatus, Clean, CleanPods, Publish, Trust,
		CheckIssuers, AnswerRequests, AnswerCSRs, ApproveRequests, IssueCertificates, ProcessOrders, SolveChallenges, InjectCAs, SpreadBundles, ShimIngresses, ShimGateways,
		ServeACMEOrders, ValidateACME, ApproveACME, CleanACME, KeepACMEEndpoints, KeepACMECertificate,
		NodeLifecycle,
		Aggregate, Namespaces, ServiceAccounts, Tokens, Garbage, TypeCheck, InstallCRDs, FrontProxy, PublishApprovalKeys, PublishLists, FillConfigMaps,
		KubeCertificates, KubeTrust,
	}
}

// Names returns the names that users can choose, without duplicates.
func Names() []string {
	var names []string
	for _, c := range Controllers() {
		if c.Chosen() && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Chosen reports whether users can choose if the controller runs.
func (c Controller) Chosen() bool {
	return c.InClusters() || c.Where == ByName || c.Where == OnlyClusters
}

// InClusters reports whether the controller runs in clusters unless it is turned off.
func (c Controller) InClusters() bool { return c.Where == Everywhere || c.Where == AlwaysInServe }

// OfCertManager reports whether the controller works for cert-manager.io.
func (c Controller) OfCertManager() bool { return slices.Contains(c.Groups, certManager) }

// Accounts returns the accounts of all controllers that "certplane serve" runs, and
// of its front ends, without duplicates.
func Accounts() []string {
	accounts := []string{CacheAccount, ACMEServerAccount}
	for _, c := range Controllers() {
		if c.Where != Peer && c.Where != OnlyClusters && !slices.Contains(accounts, c.Account) {
			accounts = append(accounts, c.Account)
		}
	}
	return accounts
}

// Of returns all rules of an account in the whole cluster.
func Of(account string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if account == ACMEServerAccount {
		rules = ACMEServerRules()
	}
	for _, c := range Controllers() {
		if c.Account == account {
			rules = append(rules, c.Rules...)
		}
	}
	return rules
}

// WritesEvents reports whether an account may write Events.
func WritesEvents(account string) bool {
	return slices.ContainsFunc(Of(account), func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "events") })
}

// PolicyRules returns the additional rights that the account of the shared cache needs
// for CertificatePolicies, which are evaluated before every approval and signature: the
// policies, and the facts that they can read. accounts are the accounts of the process's
// controllers. requestPolicies is true if CertificateRequestPolicies are enforced: roles
// decide who uses these, so a change of roles triggers new decisions. "certplane serve"
// reads policies with the server's own rights.
func PolicyRules(requestPolicies bool, accounts ...string) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		allow(read, certplane, "certificatepolicies", "certificatepolicyexceptions", "signers"),
		readNamespaces, readNodes,
		readCSRs, allow(read, certificates, "podcertificaterequests"),
		// A renewed certificate must be signed by its signer's CA.
		allow("list", certificates, "clustertrustbundles"),
		allow("create", authorization, "subjectaccessreviews"),
		// Checks whether an order of an ACME client proves a request.
		allow("get", certplane, acmeAccounts, acmeEndpoints, acmeExternalKeys, acmeOrders),
	}
	if requestPolicies {
		rules = append(rules, allow(read, approverPolicy, "certificaterequestpolicies"),
			allow("list watch", rbac, "clusterrolebindings", "clusterroles", "rolebindings", "roles"))
	}
	if slices.ContainsFunc(Controllers(), func(c Controller) bool { return c.OfCertManager() && slices.Contains(accounts, c.Account) }) {
		rules = append(rules, allow(read, certManager, "certificaterequests", "certificates", "clusterissuers", "issuers"))
	}
	return rules
}

// CacheRules returns the rights of the shared cache of a process with the
// controllers of these accounts. Without any accounts, it returns those for all
// controllers.
func CacheRules(accounts ...string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, c := range Controllers() {
		if len(accounts) > 0 && !slices.Contains(accounts, c.Account) {
			continue
		}
		for _, rule := range c.Reads {
			if !slices.ContainsFunc(rules, func(known rbacv1.PolicyRule) bool { return reflect.DeepEqual(known, rule) }) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// DelegatedRule returns the right to sign for these signers. A name can be a whole
// domain, example.com/*.
func DelegatedRule(signers ...string) rbacv1.PolicyRule {
	return allowOn("sign", certificates, "signers", signers...)
}

// API groups that the tables use.
const (
	core                  = ""
	acme                  = "acme.cert-manager.io"
	certManager           = "cert-manager.io"
	admissionregistration = "admissionregistration.k8s.io"
	approverPolicy        = "policy.cert-manager.io"
	apiextensions         = "apiextensions.k8s.io"
	apiregistration       = "apiregistration.k8s.io"
	authentication        = "authentication.k8s.io"
	authorization         = "authorization.k8s.io"
	certificates          = "certificates.k8s.io"
	certplane             = "certplane.dev"
	coordination          = "coordination.k8s.io"
	events                = "events.k8s.io"
	gateway               = "gateway.networking.k8s.io"
	networking            = "networking.k8s.io"
	openShiftRoutes       = "route.openshift.io"
	trustManager          = "trust.cert-manager.io"
	rbac                  = "rbac.authorization.k8s.io"
)

// Verbs that are usually granted together.
const (
	read  = "get list watch"
	write = "create delete deletecollection patch update"
)

// allow returns the right to use verbs, which are separated by blanks, on
// resources.
func allow(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

// allowOn returns the right to use verbs on the objects with these names only.
func allowOn(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

// writeEvents returns the right to write Events, under either name of their
// group.
func writeEvents() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{core, events}, Resources: []string{"events"}}
}

// allowURLs returns the right to read paths that are not API objects.
func allowURLs(urls ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: urls}
}
