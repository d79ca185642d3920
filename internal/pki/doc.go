// Package pki implements the X.509 part of certificate issuance.
//
// It uses only the standard library, and does not decide which requesters may
// have a certificate. It signs only certificates and revocation lists that the linter has
// passed: Authority.Lint and ListAuthority.Lint return the only types with a Sign method.
package pki
