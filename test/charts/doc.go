// Package charts tests the Helm chart and the kustomization in the folder deploy with the
// libraries of Helm and kustomize, against what "certplane manifests" prints.
//
// It is a separate module because of these libraries.
package charts
