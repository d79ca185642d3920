// Package vault runs certplane against a real Vault server, and any other server
// with its API, such as OpenBao.
//
// It is a separate module, and so is the server program that it starts, because
// Vault's license and dependencies must not reach the product.
package vault
