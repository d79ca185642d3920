package certpolicy

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/policy/request"
)

// NamespaceOf returns the name of the namespace that a request counts to: its
// own, or that of the service account that requests; empty if there is none.
func NamespaceOf(r *request.Request) string {
	if r.Namespace != "" {
		return r.Namespace
	}
	namespace, _, err := serviceaccount.SplitUsername(r.Requester.Username)
	if err != nil {
		return ""
	}
	return namespace
}

// SetOrigin sets how a request came to be, as other facts have it.
func (f *Facts) SetOrigin(from Facts) {
	f.Origin, f.Owner, f.Order = from.Origin, from.Owner, from.Order
}

// NodeOf returns the name of the node that a request is about: that of a pod, or
// that which requests; empty if there is none.
func NodeOf(r *request.Request) string {
	if r.Node != nil {
		return r.Node.Name
	}
	node, isNode := strings.CutPrefix(r.Requester.Username, nodeid.UserPrefix)
	if !isNode {
		return ""
	}
	return node
}
