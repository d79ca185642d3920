// Package nodeid tells which users are nodes.
package nodeid

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// UserPrefix is how the user name of a node begins; the node's name follows.
const UserPrefix = "system:node:"

// Of returns the node that u is. A node whose name cannot be told is one
// without a name.
func Of(u user.Info) (name string, isNode bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	if !strings.HasPrefix(u.GetName(), UserPrefix) {
		return "", false
	}
	return strings.TrimPrefix(u.GetName(), UserPrefix), true
}
