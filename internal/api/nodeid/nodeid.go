// Package nodeid identifies the users that are nodes.
package nodeid

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/api/bootstrapnode"
)

// UserPrefix is the prefix of a node's user name; the node's name follows.
const UserPrefix = "system:node:"

// JoiningOnly returns the name of the only node that u, the user of a bootstrap
// token, may join as. limited is false for all other users.
func JoiningOnly(u user.Info) (name string, limited bool) {
	if u == nil {
		return "", false
	}
	names, limited := u.GetExtra()[bootstrapnode.ExtraKey]
	if len(names) != 1 {
		return "", limited
	}
	return names[0], limited
}

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
