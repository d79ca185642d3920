package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// targetDomain tells seals of TrustBundles from other seals.
const targetDomain = "certplane.dev/cluster-target\x00"

// admittedTarget is the spec of a TrustBundle whose author may write its ClusterTrustBundle.
type admittedTarget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Spec is the SHA-256 digest of the spec in JSON, in hexadecimal digits.
	Spec string `json:"spec"`
}

func targetOf(bundle *v1alpha1.TrustBundle) (admittedTarget, error) {
	spec, err := json.Marshal(bundle.Spec)
	if err != nil {
		return admittedTarget{}, fmt.Errorf("encoding the spec: %w", err)
	}
	sum := sha256.Sum256(spec)
	return admittedTarget{bundle.Namespace, bundle.Name, hex.EncodeToString(sum[:])}, nil
}

// SealTarget seals the spec of a TrustBundle, as proof that its author may write its
// ClusterTrustBundle. The error can be ErrNoSealKey. The seal does not survive a new field
// with a default: such a field would change the digest of stored specs.
func (s *Seals) SealTarget(bundle *v1alpha1.TrustBundle) (string, error) {
	keys := s.load()
	if keys == nil {
		return "", ErrNoSealKey
	}
	target, err := targetOf(bundle)
	if err != nil {
		return "", err
	}
	return quorum.SealText(keys.signing, targetDomain, target)
}

// AdmittedTarget reports whether a TrustBundle has a seal of its present spec. The error is
// ErrNoSealKey.
func (s *Seals) AdmittedTarget(bundle *v1alpha1.TrustBundle) (bool, error) {
	if s == nil {
		return false, nil
	}
	keys := s.load()
	if keys == nil {
		return false, ErrNoSealKey
	}
	sealed, err := quorum.OpenText[admittedTarget](keys.trusted, targetDomain, bundle.Annotations[v1alpha1.TrustAdmittedAnnotation])
	if err != nil {
		return false, nil // not a seal of ours
	}
	target, err := targetOf(bundle)
	return err == nil && sealed == target, nil
}
