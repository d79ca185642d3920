// Package stepca runs certplane against step-ca, an ACME server with code of its
// own.
//
// It is a module of its own because step-ca has dependencies that the product
// must not have.
package stepca
