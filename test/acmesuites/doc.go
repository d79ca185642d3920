// Package acmesuites runs the test suites of ACME client libraries, unmodified, against
// certplane's ACME server. These suites know Pebble alone: they import its packages, or
// build and run its programs. The folder pebble has packages and programs of the same
// names that pass everything on to "certplane serve".
//
// It is a module of its own because of what it replaces.
package acmesuites
