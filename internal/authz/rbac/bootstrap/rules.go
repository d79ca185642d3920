package bootstrap

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// API groups that the tables name.
const (
	core                  = ""
	acme                  = "acme.cert-manager.io"
	certManager           = "cert-manager.io"
	admissionregistration = "admissionregistration.k8s.io"
	apiextensions         = "apiextensions.k8s.io"
	authentication        = "authentication.k8s.io"
	authorization         = "authorization.k8s.io"
	certificates          = "certificates.k8s.io"
	certplane             = "certplane.dev"
	coordination          = "coordination.k8s.io"
	events                = "events.k8s.io"
	rbac                  = "rbac.authorization.k8s.io"
)

// Verbs that are usually granted together.
const (
	read  = "get list watch"
	write = "create delete deletecollection patch update"
)

// allow lets verbs, which are separated by blanks, be used on resources.
func allow(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

// allowOn lets verbs be used on the objects with these names alone.
func allowOn(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

// writeEvents lets events be written, under either name of their group.
func writeEvents() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"create", "patch", "update"}, APIGroups: []string{core, events}, Resources: []string{"events"}}
}

// allowURLs lets paths be read that are not API objects.
func allowURLs(urls ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: urls}
}
