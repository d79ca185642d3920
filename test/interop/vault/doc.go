// Package vault runs certplane against a real Vault server, and any other server
// with its API, such as OpenBao.
//
// It is a module of its own, and the program that it starts another one, because
// Vault's license and dependencies must not reach the product.
package vault
