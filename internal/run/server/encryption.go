package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
	"github.com/certplane/certplane/internal/store/etcd"
)

// EncryptionConfig is the stanza "encryption".
type EncryptionConfig struct {
	// configFile is a file with an EncryptionConfiguration of apiserver.config.k8s.io/v1:
	// the resources to encrypt, and the providers for them (secretbox, aesgcm, aescbc, kms).
	// The file is read again when it changes. Servers that share an etcd need the same keys.
	// Default: pki/encryption.yaml in the data directory, which is made on first start and
	// encrypts Secrets, and Certificates of cert-manager.io, by secretbox with a random key.
	// "certplane encryption rotate" changes that key.
	ConfigFile string `json:"configFile,omitempty"`
}

// keyMarker is the key whose existence records that the store has encryption keys. It is
// below the prefix and outside the keys of resources.
const keyMarker = "/certplane/encryption-keys"

// openEncryption returns the file that configures encryption. It makes the
// default one for a store that never had any.
func openEncryption(ctx context.Context, dir datadir.Dir, cfg Config, storage apiserver.Storage) (string, error) {
	if cfg.Encryption.ConfigFile != "" {
		return cfg.Encryption.ConfigFile, nil
	}
	file := dir.EncryptionKeys()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	return file, makeKeys(ctx, dir, storage)
}

// makeKeys makes new keys only if the store has never had any: stored values could not be
// decrypted with new keys. An interrupted start is continued with the keys that it made.
func makeKeys(ctx context.Context, dir datadir.Dir, storage apiserver.Storage) error {
	file, candidate := dir.EncryptionKeys(), dir.NewEncryptionKeys()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	keys, err := openCandidate(candidate)
	if err != nil {
		return err
	}
	store := etcd.Remote{Servers: storage.Servers, CAFile: storage.CAFile, CertFile: storage.CertFile, KeyFile: storage.KeyFile}
	owner, err := store.CreateOnce(ctx, storage.Prefix+keyMarker, keys.Fingerprint())
	if err != nil {
		return err
	}
	if owner != keys.Fingerprint() {
		return errors.Join(os.Remove(candidate), fmt.Errorf(
			"%s is missing, but the store contains encrypted values: restore the file from a backup or, if servers share an etcd, bring the keys from the first one: 'certplane pki export' there, 'certplane pki import' here", file))
	}
	if err := os.Rename(candidate, file); err != nil {
		return fmt.Errorf("keeping the encryption keys: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(file))
}

func openCandidate(file string) (*encryption.Keys, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return writeCandidate(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the new encryption keys: %w", err)
	}
	keys, err := encryption.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return keys, nil
}

func writeCandidate(file string) (*encryption.Keys, error) {
	keys := encryption.New()
	data, err := keys.Encode()
	if err != nil {
		return nil, err
	}
	return keys, atomicfile.Create(file, data, 0o600)
}
