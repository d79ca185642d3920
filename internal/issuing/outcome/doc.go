// Package outcome writes the answers to requests for certificates: it converts
// the results of signers to outcomes, stores them on
// CertificateSigningRequests, PodCertificateRequests and CertificateRequests,
// and reports them.
//
// The controller of a kind of request decides which part of an outcome a
// request shows, and how it is written. This package ensures that each request
// gets at most one certificate, and that no certificate is lost that a CA has
// signed.
package outcome
