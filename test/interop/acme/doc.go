// Package acme runs certplane against real ACME servers.
//
// It is a separate module because these servers have licenses and dependencies
// that the product must not have.
package acme
