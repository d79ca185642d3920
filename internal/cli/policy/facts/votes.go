package facts

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// seals are the public keys that verify approvals, which are read once.
type seals struct {
	mu   sync.Mutex // guards all below
	read bool
	keys []ed25519.PublicKey
	err  error
}

// ErrNoSealKeys means that nothing says by which keys approvals are verified.
var ErrNoSealKeys = errors.New("the keys that verify approvals are not known")

// sealKeys returns the public keys. A failure is told once.
func (f *Finder) sealKeys(ctx context.Context) ([]ed25519.PublicKey, error) {
	f.seals.mu.Lock()
	defer f.seals.mu.Unlock()
	if !f.seals.read {
		f.seals.read, f.seals.err = true, ErrNoSealKeys
		if f.SealKeys != nil {
			f.seals.keys, f.seals.err = f.SealKeys(ctx)
		}
		if f.seals.err != nil {
			f.failed(f.seals.err)
		}
	}
	return f.seals.keys, f.seals.err
}

// Votes implements Source.
func (f *Finder) Votes(ctx context.Context, r *request.Request, conditions []quorum.Condition) (votes []quorum.Vote, known bool) {
	if !policies.HasVotes(conditions) {
		return nil, true
	}
	keys, err := f.sealKeys(ctx)
	return policies.VotesBy(keys, *r, conditions), err == nil
}

// ReadSealKeys returns the public keys in a file.
func ReadSealKeys(file string) ([]ed25519.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	keys, err := policies.ParseSealKeys(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(keys) == 0:
		return nil, fmt.Errorf("%s: has no public keys in PEM, as the field %s of the ConfigMap has", file, policies.SealKeysField)
	}
	return keys, nil
}
