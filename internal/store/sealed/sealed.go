// Package sealed decrypts values that are stored encrypted.
package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// prefix begins every encrypted value.
var prefix = []byte("k8s:enc:")

// Is reports whether a stored value is encrypted.
func Is(stored []byte) bool { return bytes.HasPrefix(stored, prefix) }

// ErrNoKey reports a value that none of the keys opens.
var ErrNoKey = errors.New("no key opens it")

// Keys open and seal values. They are safe for concurrent use.
type Keys struct {
	// transformers are one for each set of resources with the same keys.
	transformers []value.Transformer
}

// Load reads a file of kind EncryptionConfiguration. Connections to key
// management services end with ctx.
func Load(ctx context.Context, file string) (Keys, error) {
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, "certplane")
	if err != nil {
		return Keys{}, fmt.Errorf("reading the encryption configuration %s: %w", file, err)
	}
	var keys Keys
	for _, transformer := range config.Transformers {
		keys.transformers = append(keys.transformers, transformer)
	}
	return keys, nil
}

// Open returns the value that is stored under a key of etcd, decrypted if it is encrypted.
// The error wraps ErrNoKey if the value cannot be read with these keys.
func (k Keys) Open(ctx context.Context, key string, stored []byte) ([]byte, error) {
	plain, _, err := k.open(ctx, key, stored)
	return plain, err
}

// Move returns the value that must be stored under another key of etcd to hold
// the same content: an encrypted value can be bound to its key.
func (k Keys) Move(ctx context.Context, from, to string, stored []byte) ([]byte, error) {
	plain, with, err := k.open(ctx, from, stored)
	if err != nil || with == nil {
		return plain, err
	}
	moved, err := with.TransformToStorage(ctx, plain, value.DefaultContext(to))
	if err != nil {
		return nil, fmt.Errorf("encrypting %s: %w", to, err)
	}
	return moved, nil
}

func (k Keys) open(ctx context.Context, key string, stored []byte) ([]byte, value.Transformer, error) {
	if !Is(stored) {
		return stored, nil, nil
	}
	for _, transformer := range k.transformers {
		plain, _, err := transformer.TransformFromStorage(ctx, stored, value.DefaultContext(key))
		if err == nil && !Is(plain) {
			return plain, transformer, nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return nil, nil, fmt.Errorf("decrypting %s: %w", key, ErrNoKey)
}
