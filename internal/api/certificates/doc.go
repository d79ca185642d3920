// Package certificates holds what the API group certificates.k8s.io means:
// its kinds, defaults, conversions and validation.
//
// The v1 Go types are also the internal ones: they can hold everything that
// the other versions can, so only those need conversions.
package certificates
