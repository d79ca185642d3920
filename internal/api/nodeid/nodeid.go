// Package nodeid identifies the users that are nodes.
package nodeid

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// UserPrefix is the prefix of a node's user name; the node's name follows.
const UserPrefix = "system:node:"

// Of returns the name of the node that u is. The name of a node that cannot be
// determined is empty.
func Of(u user.Info) (name string, isNode bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	if !strings.HasPrefix(u.GetName(), UserPrefix) {
		return "", false
	}
	return strings.TrimPrefix(u.GetName(), UserPrefix), true
}
