// Package v1alpha1 is the API of certplane's own kinds, group certplane.dev.
//
// A Signer declares a signer, a CertificatePolicy decides about requests, and the kinds
// whose names begin with Acme belong to the ACME server.
//
// +kubebuilder:object:generate=true
// +groupName=certplane.dev
package v1alpha1
