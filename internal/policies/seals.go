package policies

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/notify"
)

// Seals seals the approvals of people, and opens those that are sealed. It is
// safe for concurrent use.
type Seals struct {
	keys    atomic.Pointer[sealKeys]
	changes notify.List[struct{}]
}

type sealKeys struct {
	signing crypto.Signer
	trusted []ed25519.PublicKey
}

// ErrNoSealKey means that approvals of several people cannot be sealed.
var ErrNoSealKey = errors.New("the key that seals approvals is not there yet; try again")

// Use sets the key that seals approvals. Its public key must be an ed25519.PublicKey.
// Approvals sealed by it or by one of the former keys are opened.
func (s *Seals) Use(key crypto.Signer, former ...ed25519.PublicKey) error {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("the key that seals approvals must be an Ed25519 key")
	}
	s.keys.Store(&sealKeys{signing: key, trusted: append([]ed25519.PublicKey{public}, former...)})
	s.changes.Tell(struct{}{})
	return nil
}

// Subscribe registers changed, which is called after a change of the keys. It must
// return quickly.
func (s *Seals) Subscribe(changed func(struct{})) (cancel func()) {
	return s.changes.Subscribe(changed)
}

// Open opens a sealed approval.
func (s *Seals) Open(text string) (quorum.Record, error) {
	keys := s.load()
	if keys == nil {
		return quorum.Record{}, ErrNoSealKey
	}
	return quorum.Open(keys.trusted, text)
}

// Seal seals an approval.
func (s *Seals) Seal(r quorum.Record) (string, error) {
	keys := s.load()
	if keys == nil {
		return "", ErrNoSealKey
	}
	return quorum.Seal(keys.signing, r)
}

func (s *Seals) load() *sealKeys {
	if s == nil {
		return nil
	}
	return s.keys.Load()
}

// waits reports whether the key is not known yet.
func (s *Seals) waits() bool { return s != nil && s.load() == nil }

// Keys returns the public keys that open approvals. The first one belongs to the key
// that seals.
func (s *Seals) Keys() []ed25519.PublicKey {
	if keys := s.load(); keys != nil {
		return keys.trusted
	}
	return nil
}

// Votes returns the approvals of people in the conditions of a request.
func (s *Seals) Votes(req request.Request, conditions []quorum.Condition) []quorum.Vote {
	return quorum.Votes(conditions, req, s.Open)
}

// Examine returns the conditions of a request that have the type of votes, and whether they
// are votes.
func (s *Seals) Examine(req request.Request, conditions []quorum.Condition) []quorum.Examined {
	return quorum.Examine(conditions, req, s.Open)
}

// OpenSealed returns the function that opens the sealed approvals of people; nil without
// Policies.
func (p *Policies) OpenSealed() quorum.OpenFunc {
	if p == nil {
		return nil
	}
	return p.seals.Open
}

// Seals returns the seals of approvals.
func (p *Policies) Seals() *Seals { return p.seals }

// sealInfo distinguishes the key that seals approvals from other keys derived from the
// same secret.
const sealInfo = "certplane.dev/approval-seal/v1"

// DeriveSealKey returns the key that seals approvals of a server whose secret key is
// given, by HKDF with SHA-256 (RFC 5869). Servers with the same secret key derive the
// same key, and a backup of the secret key includes it.
func DeriveSealKey(secret crypto.Signer) (ed25519.PrivateKey, error) {
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, fmt.Errorf("deriving the key that seals approvals: %w", err)
	}
	seed, err := hkdf.Key(sha256.New, der, nil, sealInfo, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the key that seals approvals: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Votes returns the approvals of a request that policies count, and the policies that required
// them; none if p is nil.
func (p *Policies) Votes(object client.Object) (votes []inventoryv1alpha1.VoteFacts, by []inventoryv1alpha1.PolicyFacts) {
	conditions := ConditionsOf(object)
	if p == nil || !slices.ContainsFunc(conditions, func(c quorum.Condition) bool { return quorum.IsVote(c.Type) }) {
		return nil, nil
	}
	of, _ := request.From(object)
	for _, e := range p.Seals().Examine(of, conditions) {
		if e.Err != nil {
			continue
		}
		votes = append(votes, inventoryv1alpha1.VoteFacts{User: e.Record.User, Time: metav1.NewTime(e.Record.Time), Message: quorum.Unsealed(e.Condition)})
		for _, policy := range e.Record.Policies {
			if facts := (inventoryv1alpha1.PolicyFacts{Name: policy.Name, Digest: policy.Digest}); !slices.Contains(by, facts) {
				by = append(by, facts)
			}
		}
	}
	return votes, by
}
