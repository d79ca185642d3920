package keystore

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// files are where a CA is read from. key is empty if the key is elsewhere.
type files struct{ cert, key string }

// content is what was in the files at one time, readable or not.
type content struct {
	cert, key []byte
	err       error
	digest    [sha256.Size]byte // tells contents apart
}

func (f files) read() content {
	var c content
	c.cert, c.err = os.ReadFile(f.cert)
	if c.err != nil {
		c.err = fmt.Errorf("reading CA certificate: %w", c.err)
	} else if f.key != "" {
		if c.key, c.err = os.ReadFile(f.key); c.err != nil {
			c.err = fmt.Errorf("reading CA key: %w", c.err)
		}
	}
	c.digest = c.sum()
	return c
}

func (c content) sum() [sha256.Size]byte {
	parts := sha256.New()
	for _, part := range [][]byte{c.cert, c.key} {
		sum := sha256.Sum256(part)
		parts.Write(sum[:])
	}
	fmt.Fprint(parts, c.err)
	return [sha256.Size]byte(parts.Sum(nil))
}

// authority is a CA as it was read.
type authority struct {
	*pki.Authority
	chain  []*x509.Certificate // all of certFile, the root too
	digest [sha256.Size]byte   // of the content it was read from
}

// load makes a CA of what was read. Its errors name the files, and show
// nothing of the key.
func (s *Store) load(ctx context.Context, c content) (*authority, error) {
	if c.err != nil {
		return nil, c.err
	}
	chain, err := pki.ParseWholeBundle(c.cert)
	if err != nil {
		return nil, fmt.Errorf("reading CA certificate in %s: %w", s.files.cert, err)
	}
	key, err := s.keyOf(ctx, chain[0], c)
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewAuthority(chain, key)
	if err != nil {
		return nil, fmt.Errorf("opening the CA in %s: %w", s.files.cert, err)
	}
	return &authority{Authority: ca, chain: chain, digest: c.digest}, nil
}

func (s *Store) keyOf(ctx context.Context, ca *x509.Certificate, c content) (crypto.Signer, error) {
	if s.vault != nil {
		return s.vault.Find(ctx, ca.PublicKey)
	}
	key, err := pki.ParsePrivateKey(c.key)
	if err != nil {
		return nil, fmt.Errorf("reading CA key in %s: %w", s.files.key, err)
	}
	if !pki.SameKey(key.Public(), ca.PublicKey) {
		return nil, fmt.Errorf("opening the CA in %s: the private key in %s does not belong to its first certificate, that of %s", s.files.cert, s.files.key, ca.Subject)
	}
	return key, nil
}

// usable tells whether certificates that the CA issues now can be verified.
func (a *authority) usable(now time.Time) error {
	for i, cert := range a.chain {
		switch {
		case now.After(cert.NotAfter):
			return fmt.Errorf("certificate %d of the CA (%s) has expired: it ended at %v", i+1, cert.Subject, cert.NotAfter)
		case now.Before(cert.NotBefore):
			return fmt.Errorf("certificate %d of the CA (%s) is not valid yet: it begins at %v", i+1, cert.Subject, cert.NotBefore)
		}
	}
	return nil
}
