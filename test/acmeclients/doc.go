// Package acmeclients runs real, unmodified ACME clients against certplane's ACME
// server: clients from Debian and npm, and Go packages.
//
// It is a separate module because these clients have dependencies that the product
// must not have. The tests run in a separate host environment: see host_test.go.
package acmeclients
