// Package v1alpha1 is the API group records.certplane.dev: how the inventory of a cluster is
// stored. Programs that read records use "certplane certificates".
//
// +kubebuilder:object:generate=true
// +groupName=records.certplane.dev
package v1alpha1
