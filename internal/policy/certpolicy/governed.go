package certpolicy

import (
	"slices"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// AllSigners is the pattern for every signer.
const AllSigners = "*"

// Governed returns the patterns of the signers for which enforced policies can be about
// requests of a kind, sorted and without duplicates. It returns AllSigners alone if a
// policy is for all signers, or if its signers are not valid.
func (s *Set) Governed(kind v1alpha1.RequestKind) []string {
	var all []string
	for _, p := range s.policies {
		if !enforced(p) || len(p.match.kinds) > 0 && !slices.Contains(p.match.kinds, kind) {
			continue
		}
		if p.matchBroken && len(p.match.signers) < max(1, len(p.spec.Match.Signers)) {
			return []string{AllSigners}
		}
		all = append(all, p.spec.Match.Signers...)
	}
	if slices.Contains(all, AllSigners) {
		return []string{AllSigners}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
