// Package acmesuites runs the test suites of ACME client libraries, unmodified, against
// certplane's ACME server. These suites only work with Pebble: they import its packages,
// or build and run its programs. The folder pebble has packages and programs of the same
// names that forward everything to "certplane serve".
//
// It is a separate module because it replaces Pebble's module.
package acmesuites
