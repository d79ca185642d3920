//go:build awskms || cloudkms || azurekms

package kms

import (
	"errors"

	"go.step.sm/crypto/kms/apiv1"
)

// keyOf gets a key from a service, and closes the service if that fails.
func keyOf(service apiv1.KeyManager, uri string) (*Key, error) {
	signer, err := service.CreateSigner(&apiv1.CreateSignerRequest{SigningKey: uri})
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return &Key{uri: uri, signer: signer, close: service.Close}, nil
}
