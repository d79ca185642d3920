// Package interop runs certplane against real Kubernetes components.
//
// It is a separate module because it requires k8s.io/kubernetes, which the
// product must not.
package interop
