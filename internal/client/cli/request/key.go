package request

import (
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

const (
	keyName   = "tls.key"
	chainName = "tls.crt"
)

// privateKey is a key and the file that holds it; the path is empty if no file does.
type privateKey struct {
	crypto.Signer
	path string
	// isNew reports that this run created the file.
	isNew bool
}

// takeKey returns the key to certify. A new key is on disk before it is used in a
// request, so that an interrupted run never leaves a certificate without its key.
func (r *run) takeKey() (*privateKey, error) {
	if r.KeyFile != "" {
		return r.readKey()
	}
	signer, err := pki.GenerateKey(r.KeyType)
	if err != nil {
		return nil, err
	}
	key := &privateKey{Signer: signer}
	if r.Out == "" {
		return key, nil
	}
	return key, key.save(filepath.Join(r.Out, keyName))
}

func (k *privateKey) save(path string) error {
	encoded, err := pki.EncodePrivateKey(k.Signer)
	if err != nil {
		return err
	}
	err = atomicfile.Create(path, encoded, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return exit.WithNext(fmt.Errorf("%s exists already and a private key is not overwritten", path),
			fmt.Sprintf("To get a certificate for that key, add: --key %s", path),
			"To get a new key, remove that file or choose another folder with --out.")
	}
	if err != nil {
		return fmt.Errorf("saving the private key: %w", err)
	}
	k.path, k.isNew = path, true
	return nil
}

func (r *run) readKey() (*privateKey, error) {
	signer, err := loadKey(r.KeyFile)
	if err != nil {
		return nil, err
	}
	if r.Out != "" {
		if err := refuseOtherKey(filepath.Join(r.Out, keyName), signer); err != nil {
			return nil, err
		}
	}
	return &privateKey{Signer: signer, path: r.KeyFile}, nil
}

func loadKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading the private key in %s: %w", path, err)
	}
	return key, nil
}

// refuseOtherKey returns an error if a certificate would be written next to
// another key.
func refuseOtherKey(path string, want crypto.Signer) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	neighbour, err := loadKey(path)
	if err != nil {
		return err
	}
	if !pki.SameKey(neighbour.Public(), want.Public()) {
		return exit.WithNext(fmt.Errorf("%s holds another key than the one given with --key", path),
			"Choose another folder for the certificate with --out.")
	}
	return nil
}

// forget removes the key's file if this run created it.
func (k *privateKey) forget() error {
	if !k.isNew || k.path == "" {
		return nil
	}
	k.isNew = false
	return os.Remove(k.path)
}
