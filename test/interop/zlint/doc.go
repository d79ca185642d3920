// Package zlint checks certificates and revocation lists that certplane issues, or that its
// linter accepts, with the linter of the public web PKI.
//
// It is a separate module because only this test needs that linter.
package zlint
