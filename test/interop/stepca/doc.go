// Package stepca runs certplane against step-ca, an independent ACME server.
//
// It is a separate module because step-ca has dependencies that the product must
// not have.
package stepca
