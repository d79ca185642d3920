// Package interop runs certplane against real Kubernetes components.
//
// It is a module of its own because it may require k8s.io/kubernetes, which
// the product must not.
package interop
