// Package tenant maps users and objects to tenants. Scarce resources are
// divided between tenants (see package fairshare).
package tenant

import (
	"cmp"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// The classes of tenants, also in metrics.
const (
	ClassAnonymous = "anonymous"
	ClassBootstrap = "bootstrap-token"
	ClassNamespace = "namespace"
	ClassNode      = "node"
	ClassUser      = "user"
	classExempt    = "exempt"
)

var (
	// Exempt is the tenant of all clients that are not limited.
	Exempt = fairshare.Tenant{Class: classExempt}
	// Anonymous is the tenant of all clients without credentials.
	Anonymous = fairshare.Tenant{Class: ClassAnonymous}
)

// OfUser returns the tenant of a user. A user who may create service accounts
// in a namespace may create any number, so a namespace is one tenant.
func OfUser(name string, groups []string) fairshare.Tenant {
	namespace, _, err := serviceaccount.SplitUsername(name)
	switch {
	case slices.Contains(groups, user.SystemPrivilegedGroup):
		return Exempt
	case slices.Contains(groups, user.AllUnauthenticated):
		return Anonymous
	case err == nil:
		return fairshare.Tenant{Class: ClassNamespace, Name: namespace}
	case slices.Contains(groups, user.NodesGroup):
		return fairshare.Tenant{Class: ClassNode, Name: name}
	case strings.HasPrefix(name, bootstrapapi.BootstrapUserPrefix):
		return fairshare.Tenant{Class: ClassBootstrap, Name: name}
	}
	return fairshare.Tenant{Class: ClassUser, Name: name}
}

// OfObject returns the tenant that is accountable for an object: the user that
// has requested a certificate, the node of a Node, otherwise the namespace that the
// object is in, or that its label v1alpha1.AcmeNamespaceLabel names. Other objects are made by
// administrators, and belong to the zero Tenant, which is none.
func OfObject(object runtime.Object) fairshare.Tenant {
	switch o := object.(type) {
	case *certificatesv1.CertificateSigningRequest:
		return OfUser(o.Spec.Username, o.Spec.Groups)
	case *certificatesv1.PodCertificateRequest:
		return OfNode(string(o.Spec.NodeName))
	case *certificatesv1beta1.PodCertificateRequest:
		return OfNode(string(o.Spec.NodeName))
	case *corev1.Node:
		return OfNode(o.Name)
	}
	if o, err := meta.Accessor(object); err == nil {
		return OfNamespace(cmp.Or(o.GetNamespace(), o.GetLabels()[v1alpha1.AcmeNamespaceLabel]))
	}
	return fairshare.Tenant{}
}

// OfNamespace returns the tenant of a namespace; the zero Tenant if the name is empty.
func OfNamespace(name string) fairshare.Tenant {
	if name == "" {
		return fairshare.Tenant{}
	}
	return fairshare.Tenant{Class: ClassNamespace, Name: name}
}

// Text returns the text that Parse reads; empty for the zero Tenant.
func Text(t fairshare.Tenant) string {
	if t == (fairshare.Tenant{}) {
		return ""
	}
	return t.Class + "/" + t.Name
}

// Parse returns the tenant of a text of Text; the zero Tenant if it is none.
func Parse(text string) fairshare.Tenant {
	class, name, ok := strings.Cut(text, "/")
	if !ok {
		return fairshare.Tenant{}
	}
	return fairshare.Tenant{Class: class, Name: name}
}

// OfNode returns the tenant of a node.
func OfNode(name string) fairshare.Tenant {
	return fairshare.Tenant{Class: ClassNode, Name: nodeid.UserPrefix + name}
}

// Describe names a tenant in messages, as the one that makes a request.
func Describe(t fairshare.Tenant) string {
	switch t.Class {
	case ClassAnonymous:
		return "all clients without credentials"
	case ClassNamespace:
		return "the service accounts of namespace " + t.Name
	}
	return t.Name
}

// DescribeOwner names a tenant in messages, as the one that objects count for.
func DescribeOwner(t fairshare.Tenant) string {
	if t.Class == ClassNamespace {
		return "namespace " + t.Name
	}
	return Describe(t)
}
