// Package acmeclients runs real ACME clients, unmodified, against certplane's ACME
// server: those of Debian, of npm, and those that are Go packages.
//
// It is a module of its own because these clients have dependencies that the product
// must not have. The tests run on a host of their own, which only looks like this
// one: see host_test.go.
package acmeclients
