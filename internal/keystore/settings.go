package keystore

import (
	"errors"
	"fmt"
	"strings"
)

// Settings is the stanza of one CA.
type Settings struct {
	// certFile holds the CA's certificate in PEM, then the certificates that link
	// it to its root, in order; the root itself may be omitted. Clients get all
	// of them but the root with each certificate. The file is read again every
	// few seconds: a new CA is used, without a restart, once it is complete,
	// valid and belongs to the key.
	CertFile string `json:"certFile,omitempty"`
	// keyFile holds the CA's private key in PEM, unencrypted, as PKCS#8,
	// PKCS#1 or SEC 1: RSA, ECDSA or Ed25519. It is read again together with
	// certFile, and may be the same file. Set either keyFile or key.
	KeyFile string `json:"keyFile,omitempty"`
	// key is the URI of a private key outside of this host's files:
	// pkcs11:token=T;object=LABEL?module-path=FILE&pin-source=file:FILE (RFC
	// 7512), awskms:key-id=ID?region=R, cloudkms:projects/... or
	// azurekms:name=K;vault=V. Each kind needs a certplane that was built with
	// it: go build -tags pkcs11 and so on. The certificate is in certFile.
	Key string `json:"key,omitempty"`
}

// IsZero reports whether no CA is configured.
func (s Settings) IsZero() bool { return s == Settings{} }

// Validate returns an error for the first invalid value, with its field; field is
// the path of the stanza, such as signing.ca. An empty stanza is valid: the
// caller decides its meaning. No error shows the value of key, which may contain
// a PIN.
func (s Settings) Validate(field string) error {
	switch {
	case s.IsZero():
		return nil
	case s.CertFile == "":
		return fmt.Errorf("%s.certFile: missing: set it to the file with the certificate that belongs to the key", field)
	case s.KeyFile == "" && s.Key == "":
		return fmt.Errorf("%s.keyFile: missing: set it to the file with the key that belongs to certFile, or set %s.key to the key's URI", field, field)
	case s.KeyFile != "" && s.Key != "":
		return fmt.Errorf("%s.key: is set in addition to keyFile, so there are two keys: remove one of them", field)
	case s.Key != "":
		if err := validateKey(s.Key); err != nil {
			return fmt.Errorf("%s.key: %w", field, err)
		}
	}
	return nil
}

func validateKey(uri string) error {
	found, err := schemeOf(uri)
	if err != nil {
		return err
	}
	return found.validate(uri)
}

func schemeOf(uri string) (scheme, error) {
	var known []string
	for _, s := range schemes() {
		if strings.HasPrefix(strings.ToLower(uri), s.prefix) {
			return s, nil
		}
		known = append(known, s.prefix)
	}
	if strings.Contains(uri, "-----BEGIN") {
		return scheme{}, errors.New("holds a key itself: write that into a file and name it in keyFile")
	}
	return scheme{}, fmt.Errorf("is not a URI of a known kind: it must begin with one of %s; a key in a file belongs in keyFile", strings.Join(known, ", "))
}
