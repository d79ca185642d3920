// Package bootstrapnode names what limits a bootstrap token to one node.
package bootstrapnode

const (
	// SecretKey is the key in the Secret of a bootstrap token with the name of
	// the only node that may join with it.
	SecretKey = "node-name"
	// ExtraKey is the key in the extra of the token's user with the same name.
	ExtraKey = "authentication.certplane.dev/bootstrap-node"
)
