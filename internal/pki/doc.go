// Package pki implements the X.509 part of certificate issuance.
//
// It uses only the standard library, and does not decide which requesters may
// have a certificate. It signs only certificates that the linter has passed:
// Authority.Lint returns the only type with a Sign method.
package pki
