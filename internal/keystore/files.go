// Package keystore holds the keys of certification authorities.
package keystore

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/certplane/certplane/internal/pki"
)

// Files is a CA whose certificate and key are PEM files.
type Files struct {
	authority *pki.Authority
}

// OpenFiles reads a CA. certFile holds the CA's certificate first, then the
// certificates that link it to its root, if it is not one itself; keyFile
// holds the key, unencrypted, as PKCS#8, PKCS#1 or SEC 1. One file may serve
// as both. A pair that cannot issue certificates is refused here and not when
// somebody waits for a certificate.
func OpenFiles(certFile, keyFile string) (*Files, error) {
	chain, err := readChain(certFile)
	if err != nil {
		return nil, err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	authority, err := pki.NewAuthority(chain, key)
	if err != nil {
		return nil, fmt.Errorf("opening the CA in %s with the key in %s: %w", certFile, keyFile, err)
	}
	return &Files{authority: authority}, nil
}

// Current returns the CA with which to sign now. Two calls can return
// different CAs: whoever signs keeps the one it asked for.
func (f *Files) Current() (*pki.Authority, error) { return f.authority, nil }

func readChain(file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading CA certificate: %w", err)
	}
	chain, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading CA certificate in %s: %w", file, err)
	}
	return chain, nil
}

// readKey must never show the content of the file: not in errors either.
func readKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading CA key: %w", err)
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading CA key in %s: %w", file, err)
	}
	return key, nil
}
