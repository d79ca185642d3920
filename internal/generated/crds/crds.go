// Package crds holds the manifests of the custom resources that certplane
// brings along, made from their Go types.
package crds

import "embed"

// Files are the CustomResourceDefinitions, one a file, in YAML.
//
//go:embed *.yaml
var Files embed.FS
