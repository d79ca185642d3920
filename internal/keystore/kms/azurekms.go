//go:build azurekms

package kms

import (
	"context"

	"go.step.sm/crypto/kms/apiv1"
	"go.step.sm/crypto/kms/azurekms"
)

func openAzure(ctx context.Context, uri string) (*Key, error) {
	service, err := azurekms.New(ctx, apiv1.Options{URI: uri})
	if err != nil {
		return nil, err
	}
	return keyOf(service, uri)
}
