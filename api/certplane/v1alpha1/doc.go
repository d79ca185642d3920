// Package v1alpha1 is the API of certplane's own kinds, group certplane.dev.
//
// A Signer is a signer that is declared instead of programmed.
//
// +kubebuilder:object:generate=true
// +groupName=certplane.dev
package v1alpha1
