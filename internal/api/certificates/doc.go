// Package certificates holds what the API group certificates.k8s.io means:
// its kinds, defaults, conversions and validation.
//
// Of each kind, the Go types of one served version are also the internal ones:
// of the version that can hold everything that the others can. Only those
// others need conversions. It is v1, but for PodCertificateRequests v1beta1.
package certificates
