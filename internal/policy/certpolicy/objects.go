package certpolicy

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/policy/request"
)

// NamespaceOf returns the name of the namespace that a request counts to: its own, or
// the namespace of the requesting service account; "" without one.
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

// SetOrigin copies the origin of a request from other facts.
func (f *Facts) SetOrigin(from Facts) {
	f.Origin, f.Owner, f.Order = from.Origin, from.Owner, from.Order
}

// NodeOf returns the name of the node that a request is about: the node of a pod, or
// the requesting node; "" without one.
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
