package keystore

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
)

// authority is a CA that was read from files.
type authority struct {
	*pki.Authority
	chain  []*x509.Certificate // all of certFile, the root too
	digest filewatch.Digest    // of the contents it was read from
}

// load parses a CA from the contents of its files. Its errors name the files,
// and show nothing of the key.
func (s *Store) load(ctx context.Context, c filewatch.Contents) (*authority, error) {
	chain, err := pki.ParseBundle(c.Data[0])
	if err != nil {
		return nil, fmt.Errorf("reading CA certificate in %s: %w", s.settings.CertFile, err)
	}
	key, err := s.keyOf(ctx, chain[0], c.Data[1])
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewAuthority(chain, key)
	if err != nil {
		return nil, fmt.Errorf("opening the CA in %s: %w", s.settings.CertFile, err)
	}
	return &authority{Authority: ca, chain: chain, digest: c.Digest}, nil
}

func (s *Store) keyOf(ctx context.Context, ca *x509.Certificate, keyPEM []byte) (crypto.Signer, error) {
	if s.vault != nil {
		return s.vault.Find(ctx, ca.PublicKey)
	}
	key, err := pki.ParsePrivateKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading CA key in %s: %w", s.settings.KeyFile, err)
	}
	if !pki.SameKey(key.Public(), ca.PublicKey) {
		return nil, fmt.Errorf("opening the CA in %s: the private key in %s does not belong to its first certificate, %s", s.settings.CertFile, s.settings.KeyFile, ca.Subject)
	}
	return key, nil
}

// usable returns an error if certificates that the CA issues now could not be
// verified.
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
