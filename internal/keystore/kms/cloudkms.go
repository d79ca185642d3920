//go:build cloudkms

package kms

import (
	"context"

	"go.step.sm/crypto/kms/apiv1"
	"go.step.sm/crypto/kms/cloudkms"
)

func openGoogle(ctx context.Context, uri string) (*Key, error) {
	service, err := cloudkms.New(ctx, apiv1.Options{URI: uri})
	if err != nil {
		return nil, err
	}
	return keyOf(service, uri)
}
