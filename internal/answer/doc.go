// Package answer gives requests for certificates their answers: it makes
// outcomes of what signers say, stores them on CertificateSigningRequests,
// PodCertificateRequests and CertificateRequests, and reports them.
//
// What a kind of request shows of an outcome, and how that is written, is up to
// its controller. That each request gets one certificate at most, and that none
// is lost that a CA has signed, is decided here.
package answer
