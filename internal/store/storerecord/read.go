package storerecord

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
)

// Read returns the keys in the folder pki of dir, without those that do not
// exist. It makes none.
func Read(dir datadir.Dir) (Keys, error) { return ReadPKI(dir.PKI()) }

// ReadPKI is Read for a folder pki in another place.
func ReadPKI(dir string) (Keys, error) {
	var keys Keys
	var err error
	in := func(name string) string { return filepath.Join(dir, name) }
	if keys.ClientCA, err = readCAs(in(datadir.ClientRootCA + ".crt")); err != nil {
		return Keys{}, err
	}
	if len(keys.ClientCA) == 0 { // then the issuing CA is trusted itself
		if keys.ClientCA, err = readCAs(in(datadir.ClientCA + ".crt")); err != nil {
			return Keys{}, err
		}
	}
	if keys.ServingCA, err = readCAs(in(datadir.ServingCA + ".crt")); err != nil {
		return Keys{}, err
	}
	if keys.ServiceAccount, err = readKey(in(datadir.ServiceAccountKey)); err != nil {
		return Keys{}, err
	}
	file := in(datadir.EncryptionFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		file = in(datadir.NewEncryptionFile)
	}
	return readEncryption(keys, file)
}

// readFile returns nothing if the file does not exist.
func readFile(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the server's keys: %w", err)
	}
	return data, nil
}

func readCAs(file string) ([]string, error) {
	data, err := readFile(file)
	if err != nil || data == nil {
		return nil, err
	}
	chain, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return fingerprints(chain), nil
}

// fingerprints returns them sorted, because the order of roots in a file means
// nothing.
func fingerprints(certs []*x509.Certificate) []string {
	var all []string
	for _, cert := range certs {
		all = append(all, digest(cert.RawSubjectPublicKeyInfo))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func readKey(file string) ([]string, error) {
	data, err := readFile(file)
	if err != nil || data == nil {
		return nil, err
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	fingerprint, err := Fingerprint(key.Public())
	return []string{fingerprint}, err
}

// Fingerprint returns the form in which a public key is recorded.
func Fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding a public key: %w", err)
	}
	return digest(der), nil
}

func readEncryption(keys Keys, file string) (Keys, error) {
	data, err := readFile(file)
	if err != nil || data == nil {
		return keys, err
	}
	parsed, err := encryption.Parse(data)
	if err != nil {
		return Keys{}, fmt.Errorf("reading %s: %w", file, err)
	}
	keys.Encryption, keys.decrypting = parsed.KeyFingerprints()
	return keys, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
