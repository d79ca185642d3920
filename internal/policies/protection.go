package policies

import (
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/protection"
)

// Protected returns the policies whose changes need people. The error is
// ErrUnknown.
func (p *Policies) Protected() ([]protection.Policy, error) {
	set, err := p.Set()
	if err != nil {
		return nil, err
	}
	return ProtectedIn(set), nil
}

// ProtectedIn returns the policies of a set whose changes need people, in any mode,
// also policies that cannot be evaluated.
func ProtectedIn(set *certpolicy.Set) []protection.Policy {
	var all []protection.Policy
	for _, p := range set.Policies() {
		if protected := p.Spec().Protection; protected != nil {
			all = append(all, protection.Policy{Name: p.Name(), Digest: p.Digest(), People: protected.People, Signers: p.Spec().Match.Signers})
		}
	}
	return all
}

// OpenProposal opens a sealed proposal.
func (s *Seals) OpenProposal(text string) (protection.Record, error) {
	keys := s.load()
	if keys == nil {
		return protection.Record{}, ErrNoSealKey
	}
	return protection.Open(keys.trusted, text)
}

// SealProposal seals a proposal.
func (s *Seals) SealProposal(r protection.Record) (string, error) {
	keys := s.load()
	if keys == nil {
		return "", ErrNoSealKey
	}
	return protection.Seal(keys.signing, r)
}
