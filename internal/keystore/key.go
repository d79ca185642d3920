package keystore

import (
	"context"
	"errors"
	"fmt"

	"github.com/certplane/certplane/internal/pki"
)

// Key is a CA whose key does not leave its place and whose certificate does not
// change. It is safe for concurrent use until Close.
type Key struct {
	*pki.Authority
	vault vault
}

// OpenKey opens the CA whose key has this URI, as in Settings, and whose
// certificate with its chain is in PEM. No error shows the URI, which may
// contain a PIN.
func OpenKey(ctx context.Context, uri string, certificate []byte) (*Key, error) {
	chain, err := pki.ParseBundle(certificate)
	if err != nil {
		return nil, fmt.Errorf("reading the CA certificate: %w", err)
	}
	if err := validateKey(uri); err != nil {
		return nil, fmt.Errorf("the key's URI %w", err)
	}
	vault, err := openVault(ctx, uri)
	if err != nil {
		return nil, err
	}
	key, err := vault.Find(ctx, chain[0].PublicKey)
	if err != nil {
		return nil, errors.Join(err, vault.Close())
	}
	authority, err := pki.NewAuthority(chain, key)
	if err != nil {
		return nil, errors.Join(err, vault.Close())
	}
	return &Key{Authority: authority, vault: vault}, nil
}

// Close releases the key.
func (k *Key) Close() error { return k.vault.Close() }
