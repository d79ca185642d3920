// Package certificates implements the API group certificates.k8s.io: its kinds,
// defaults, conversions and validation.
//
// For each kind, the Go types of one served version are also the internal types. This
// version can represent all others: it is v1beta1 for PodCertificateRequests and v1 for the
// other kinds. Only the other versions need conversions.
package certificates
