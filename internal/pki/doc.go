// Package pki knows the X.509 facts of certificate issuance.
//
// It builds on the standard library alone and decides nothing about who may
// have a certificate. Nothing is signed here that the linter has not passed:
// Authority.Lint mints the only value that has a Sign method.
package pki
