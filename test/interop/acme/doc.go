// Package acme runs certplane against real ACME servers.
//
// It is a module of its own because these servers have licenses and
// dependencies that the product must not have.
package acme
