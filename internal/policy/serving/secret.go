package serving

import (
	"fmt"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// The keys of a Secret that holds a State. The keys of the certificate are the ones of the
// type kubernetes.io/tls; the bundle is only for information.
const (
	bundleKey   = "ca.crt"
	leafCertKey = "tls.crt"
	leafKeyKey  = "tls.key"
)

var caKeys = rotation.Keys{
	Cert: "signing-ca.crt", Key: "signing-ca.key", NextCert: "next-ca.crt", NextKey: "next-ca.key", Former: "former-ca.crt",
	TakesOver: "next-ca.from",
}

// Data returns the state as the data of a Secret.
func (s State) Data() (map[string][]byte, error) {
	data := map[string][]byte{bundleKey: s.Bundle()}
	caKeys.Put(data, s.ca)
	if len(s.leaf.chain) == 0 {
		return data, nil
	}
	key, err := pki.EncodePrivateKey(s.leaf.key)
	data[leafCertKey], data[leafKeyKey] = pki.EncodeCertificates(s.leaf.chain...), key
	return data, err
}

// HasCA reports whether data is, or was before it was damaged, the result of Data.
func HasCA(data map[string][]byte) bool {
	_, cert := data[caKeys.Cert]
	_, key := data[caKeys.Key]
	return cert || key
}

// Parse reads the result of Data. Its errors name the invalid key, and show
// nothing of its content.
func Parse(data map[string][]byte) (State, error) {
	var s State
	var err error
	if s.ca, err = caKeys.Parse(data); err != nil {
		return State{}, err
	}
	if s.leaf, err = parseLeaf(data); err != nil {
		return State{}, err
	}
	return s, nil
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
