package bundles

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"

	"github.com/certplane/certplane/internal/api/trustmanager"
)

// hashes returns the hashes of a target: as trust-manager computes it from v0.25 on, and as
// before, without the profile. The keystores are not part of it, because each encoding of one
// differs.
func hashes(pem []byte, formats *trustmanager.AdditionalFormats, metadata trustmanager.TargetMetadata) (hash, former string) {
	texts, profile := []string{string(pem)}, ""
	if formats != nil && formats.JKS != nil {
		texts = append(texts, formats.JKS.Password)
	}
	if formats != nil && formats.PKCS12 != nil {
		texts, profile = append(texts, passwordOf(formats.PKCS12)), string(formats.PKCS12.Profile)
	}
	var added []string
	for _, pairs := range []map[string]string{metadata.Annotations, metadata.Labels} {
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			added = append(added, key, pairs[key])
		}
	}
	return digest(slices.Concat(texts, []string{profile}, added)), digest(slices.Concat(texts, added))
}

func digest(texts []string) string {
	hash := sha256.New()
	for _, text := range texts {
		_, _ = io.WriteString(hash, text) // never fails
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func passwordOf(format *trustmanager.PKCS12) string {
	if format.Password == nil {
		return ""
	}
	return *format.Password
}
