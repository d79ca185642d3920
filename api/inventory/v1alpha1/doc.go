// Package v1alpha1 is the API of the inventory of "certplane serve", group
// inventory.certplane.dev: it lists every issued certificate until some time after its
// expiry. Only the server writes it; clients read.
//
// +kubebuilder:object:generate=true
// +groupName=inventory.certplane.dev
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.certplane.inventory.v1alpha1
package v1alpha1
