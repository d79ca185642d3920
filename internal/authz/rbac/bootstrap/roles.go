package bootstrap

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// Labels by which a role's rules become part of another role.
const (
	toAdmin = "rbac.authorization.k8s.io/aggregate-to-admin"
	toEdit  = "rbac.authorization.k8s.io/aggregate-to-edit"
	toView  = "rbac.authorization.k8s.io/aggregate-to-view"
)

// role is a line of the table of ClusterRoles.
type role struct {
	name string
	// joins is the label that makes the rules part of another role.
	joins string
	// gathers is the label of the roles that this one consists of.
	gathers string
	rules   []rbacv1.PolicyRule
}

// userRoles are for people and programs outside; nobody has them unless
// bindings says so.
func userRoles() []role {
	everything := []rbacv1.PolicyRule{
		allow("*", "*", "*"),
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}
	return []role{
		{name: "cluster-admin", rules: everything},
		{name: "system:discovery", rules: []rbacv1.PolicyRule{
			allowURLs("/livez", "/readyz", "/healthz", "/version", "/version/",
				"/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"),
		}},
		{name: "system:public-info-viewer", rules: []rbacv1.PolicyRule{
			allowURLs("/livez", "/readyz", "/healthz", "/version", "/version/"),
		}},
		{name: "system:basic-user", rules: []rbacv1.PolicyRule{
			allow("create", authorization, "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			allow("create", authentication, "selfsubjectreviews"),
		}},
		{name: "system:monitoring", rules: []rbacv1.PolicyRule{
			allowURLs("/metrics", "/metrics/slis", "/livez", "/readyz", "/healthz", "/livez/*", "/readyz/*", "/healthz/*",
				"/statusz", "/flagz"),
		}},
		{name: "system:auth-delegator", rules: []rbacv1.PolicyRule{
			allow("create", authentication, "tokenreviews"),
			allow("create", authorization, "subjectaccessreviews"),
		}},

		// Whoever is bound to one of these in a namespace looks after it, works
		// in it or looks at it.
		{name: "admin", gathers: toAdmin},
		{name: "edit", gathers: toEdit, joins: toAdmin},
		{name: "view", gathers: toView, joins: toEdit},
		{name: "system:aggregate-to-admin", joins: toAdmin, rules: []rbacv1.PolicyRule{
			allow("create", authorization, "localsubjectaccessreviews"),
			allow(read+" "+write, rbac, "roles", "rolebindings"),
		}},
		{name: "system:aggregate-to-edit", joins: toEdit, rules: []rbacv1.PolicyRule{
			allow(read, core, "secrets"),
			allow(write, core, "configmaps", "events", "pods", "secrets", "serviceaccounts", "services"),
			allow(write, events, "events"),
			allow("create", core, "pods/eviction", "serviceaccounts/token"),
			allow("impersonate", core, "serviceaccounts"),
			// Who may be these accounts and read these objects may let a host.
			allow("host", core, "configmaps", "secrets", "serviceaccounts"),
			allow(read+" "+write, coordination, "leases"),
		}},
		{name: "system:aggregate-to-view", joins: toView, rules: []rbacv1.PolicyRule{
			allow(read, core, "configmaps", "events", "namespaces", "namespaces/status", "pods", "pods/log", "pods/status", "serviceaccounts", "services", "services/status"),
			// The same events under their newer name.
			allow(read, events, "events"),
		}},

		{name: "system:node", rules: NodeRules()},
		{name: "system:service-account-issuer-discovery", rules: []rbacv1.PolicyRule{
			allowURLs("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"),
		}},
		{name: "system:cluster-trust-bundle-discovery", rules: []rbacv1.PolicyRule{
			allow(read, certificates, "clustertrustbundles"),
		}},
	}
}

// NodeRules are what a kubelet needs. The role is bound to nobody: which node
// may touch which object is more than rules can say.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow("create", authentication, "tokenreviews"),
		allow("create", authorization, "localsubjectaccessreviews", "subjectaccessreviews"),
		allow("create "+read, core, "nodes"),
		allow("patch update", core, "nodes", "nodes/status"),
		allow("create patch update", core, "events"),
		allow(read, core, "configmaps", "pods", "secrets", "services"),
		allow("create delete", core, "pods"),
		allow("patch update", core, "pods/status"),
		allow("create", core, "pods/eviction", "serviceaccounts/token"),
		allow("get", core, "serviceaccounts"),
		allow("create delete get patch update", coordination, "leases"),
		allow("create "+read, certificates, "certificatesigningrequests", "podcertificaterequests"),
		allow(read, certificates, "clustertrustbundles"),
	}
}

// binding is a line of the table of ClusterRoleBindings: it gives the role of
// the same name to groups.
type binding struct {
	role   string
	groups []string
}

func bindings() []binding {
	return []binding{
		{"cluster-admin", []string{"system:masters"}},
		{"system:discovery", []string{"system:authenticated"}},
		{"system:basic-user", []string{"system:authenticated"}},
		{"system:public-info-viewer", []string{"system:authenticated", "system:unauthenticated"}},
		{"system:monitoring", []string{"system:monitoring"}},
		{"system:service-account-issuer-discovery", []string{"system:serviceaccounts"}},
		{"system:cluster-trust-bundle-discovery", []string{"system:serviceaccounts"}},
		// Empty, and kept so that an administrator finds where to add nodes.
		{"system:node", nil},
	}
}
