package server

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// keyPair is a certificate chain and its private key, kept in two files.
type keyPair struct {
	certFile, keyFile string
	certPEM, keyPEM   []byte
	chain             []*x509.Certificate
	key               crypto.Signer
}

func pairFiles(dir, name string) (certFile, keyFile string) {
	return filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
}

// errKeyMissing reports a certificate without its key.
var errKeyMissing = errors.New("is missing")

// readKeyPair reads what writeKeyPair wrote. Its error matches fs.ErrNotExist
// if the certificate does not exist: then nothing was ever signed with the key.
func readKeyPair(dir, name string) (keyPair, error) {
	pair := keyPair{}
	pair.certFile, pair.keyFile = pairFiles(dir, name)
	var err error
	if pair.certPEM, err = os.ReadFile(pair.certFile); err != nil {
		return keyPair{}, fmt.Errorf("reading a certificate: %w", err)
	}
	if pair.keyPEM, err = os.ReadFile(pair.keyFile); errors.Is(err, fs.ErrNotExist) {
		return keyPair{}, fmt.Errorf("%s %w but its certificate %s exists: restore the key from a backup", pair.keyFile, errKeyMissing, pair.certFile)
	} else if err != nil {
		return keyPair{}, fmt.Errorf("reading a private key: %w", err)
	}
	if pair.chain, err = pki.ParseBundle(pair.certPEM); err != nil {
		return keyPair{}, fmt.Errorf("reading %s: %w", pair.certFile, err)
	}
	if pair.key, err = pki.ParsePrivateKey(pair.keyPEM); err != nil {
		return keyPair{}, fmt.Errorf("reading %s: %w", pair.keyFile, err)
	}
	return pair, nil
}

// matches reports whether key and certificate belong together. They do not after
// a crash in the middle of replacing them.
func (p keyPair) matches() bool {
	return pki.SameKey(p.key.Public(), p.chain[0].PublicKey)
}

// writeKeyPair writes the key before its certificate, so that an interrupted start never
// leaves a certificate without a key.
func writeKeyPair(dir, name string, chain []*x509.Certificate, key crypto.Signer) (keyPair, error) {
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		return keyPair{}, err
	}
	pair := keyPair{certPEM: pki.EncodeCertificates(chain...), keyPEM: keyPEM, chain: chain, key: key}
	pair.certFile, pair.keyFile = pairFiles(dir, name)
	if err := atomicfile.Write(pair.keyFile, pair.keyPEM, 0o600); err != nil {
		return keyPair{}, fmt.Errorf("writing a private key: %w", err)
	}
	if err := atomicfile.Write(pair.certFile, pair.certPEM, 0o644); err != nil {
		return keyPair{}, fmt.Errorf("writing a certificate: %w", err)
	}
	return pair, nil
}

// openKey reads a private key that has no certificate, or makes it.
func openKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading a private key: %w", err)
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return key, nil
}

func makeKey(file string) (crypto.Signer, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(file, data, 0o600); err != nil {
		return nil, fmt.Errorf("writing a private key: %w", err)
	}
	return key, nil
}
