// Package zlint checks the certificates that certplane makes, and those that
// its linter accepts, with the linter of the public web PKI.
//
// It is a module of its own because only this test needs that linter.
package zlint
