package serving

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// The keys of a Secret that holds a State. Those of the certificate are as in
// every Secret of the type kubernetes.io/tls; the bundle is for whoever looks.
const (
	bundleKey    = "ca.crt"
	leafCertKey  = "tls.crt"
	leafKeyKey   = "tls.key"
	caCertKey    = "signing-ca.crt"
	caKeyKey     = "signing-ca.key"
	nextCertKey  = "next-ca.crt"
	nextKeyKey   = "next-ca.key"
	takesOverKey = "next-ca.from" // RFC 3339
	formerKey    = "former-ca.crt"
)

// Data is the state as the data of a Secret.
func (s State) Data() (map[string][]byte, error) {
	data := map[string][]byte{bundleKey: s.Bundle()}
	err := errors.Join(
		put(data, leafCertKey, leafKeyKey, s.leaf.chain, s.leaf.key),
		s.current.put(data, caCertKey, caKeyKey),
		s.next.put(data, nextCertKey, nextKeyKey),
	)
	if s.next.Authority != nil {
		data[takesOverKey] = []byte(s.takesOver.Format(time.RFC3339))
	}
	if len(s.former) > 0 {
		data[formerKey] = pki.EncodeCertificates(s.former...)
	}
	return data, err
}

func (c ca) put(data map[string][]byte, certKey, keyKey string) error {
	if c.Authority == nil {
		return nil
	}
	return put(data, certKey, keyKey, []*x509.Certificate{c.Certificate()}, c.key)
}

// Parse reads what Data has written. Its errors name the key that is wrong, and
// nothing of what it holds.
func Parse(data map[string][]byte) (State, error) {
	var s State
	var err error
	if s.current, err = parseCA(data, caCertKey, caKeyKey); err != nil {
		return State{}, err
	}
	if s.leaf, err = parseLeaf(data); err != nil {
		return State{}, err
	}
	if len(data[nextCertKey]) > 0 {
		if s.next, err = parseCA(data, nextCertKey, nextKeyKey); err != nil {
			return State{}, err
		}
		// A time that cannot be read is none: then it takes over at once.
		s.takesOver, _ = time.Parse(time.RFC3339, string(data[takesOverKey]))
	}
	if len(data[formerKey]) > 0 {
		if s.former, err = pki.ParseBundle(data[formerKey]); err != nil {
			return State{}, fmt.Errorf("%s: %w", formerKey, err)
		}
	}
	return s, nil
}

func parseCA(data map[string][]byte, certKey, keyKey string) (ca, error) {
	chain, err := pki.ParseCertificates(data[certKey])
	if err != nil {
		return ca{}, fmt.Errorf("%s: %w", certKey, err)
	}
	key, err := pki.ParsePrivateKey(data[keyKey])
	if err != nil {
		return ca{}, fmt.Errorf("%s: %w", keyKey, err)
	}
	authority, err := pki.NewAuthority(chain, key)
	if err != nil {
		return ca{}, fmt.Errorf("%s: %w", certKey, err)
	}
	return ca{authority, key}, nil
}

func parseLeaf(data map[string][]byte) (leaf, error) {
	chain, err := pki.ParseCertificates(data[leafCertKey])
	if err != nil {
		return leaf{}, fmt.Errorf("%s: %w", leafCertKey, err)
	}
	key, err := pki.ParsePrivateKey(data[leafKeyKey])
	if err != nil {
		return leaf{}, fmt.Errorf("%s: %w", leafKeyKey, err)
	}
	if len(chain) == 0 || !pki.SameKey(key.Public(), chain[0].PublicKey) {
		return leaf{}, fmt.Errorf("%s: the key does not belong to %s", leafKeyKey, leafCertKey)
	}
	return leaf{chain, key}, nil
}

func put(data map[string][]byte, certKey, keyKey string, chain []*x509.Certificate, key crypto.Signer) error {
	if len(chain) == 0 {
		return nil
	}
	encoded, err := pki.EncodePrivateKey(key)
	if err != nil {
		return fmt.Errorf("%s: %w", keyKey, err)
	}
	data[certKey], data[keyKey] = pki.EncodeCertificates(chain...), encoded
	return nil
}
