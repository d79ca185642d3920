// Package zlint has the certificates that certplane makes, and those that its linter
// lets pass, judged by the linter of the public web PKI.
//
// It is a module of its own because only this test needs that linter.
package zlint
