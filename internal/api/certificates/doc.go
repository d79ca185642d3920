// Package certificates implements the API group certificates.k8s.io: its kinds,
// defaults, conversions and validation.
//
// For each kind, the Go types of one served version are also the internal
// types: those of the version that can represent all the others. Only the other
// versions need conversions. It is v1, except for PodCertificateRequests, where
// it is v1beta1.
package certificates
