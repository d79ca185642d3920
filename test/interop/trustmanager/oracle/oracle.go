// Package oracle provides trust-manager for tests: how it reads the sources of Bundles, and the
// hash of its targets, which are internal packages.
//
// Its module path is inside trust-manager, because Go permits imports of internal packages by the
// path of the importer. The package has no logic to test.
package oracle

import (
	"context"

	trustapi "github.com/cert-manager/trust-manager/pkg/apis/trust/v1alpha1"
	"github.com/cert-manager/trust-manager/pkg/bundle/controller"
	"github.com/cert-manager/trust-manager/pkg/bundle/internal/source"
	"github.com/cert-manager/trust-manager/pkg/bundle/internal/target"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PEM returns the certificates of sources.
func PEM(ctx context.Context, reader client.Reader, options controller.Options, sources []trustapi.BundleSource) (string, error) {
	builder := source.BundleBuilder{Reader: reader, Options: options}
	data, err := builder.BuildBundle(ctx, sources)
	if err != nil {
		return "", err
	}
	return data.CertPool.PEM(), nil
}

// Hash returns the hash of a target.
func Hash(pem string, formats *trustapi.AdditionalFormats, template *trustapi.TargetTemplate) string {
	return target.TrustBundleHash([]byte(pem), formats, template)
}
