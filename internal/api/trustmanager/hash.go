package trustmanager

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
)

// TargetHash returns the hash of the content of a target as trust-manager computes it, and as it
// did up to v0.24, without the profile of PKCS#12. Keystores are not part of it, because each
// encoding of one differs.
func TargetHash(pem string, formats AdditionalFormats, metadata TargetMetadata) (hash, former string) {
	before, profile, after := pem, "", ""
	if formats.JKS != nil {
		before += formats.JKS.Password
	}
	if formats.PKCS12 != nil {
		before, profile = before+formats.PKCS12.PasswordText(), string(formats.PKCS12.Profile)
	}
	for _, pairs := range []map[string]string{metadata.Annotations, metadata.Labels} {
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			after += key + pairs[key]
		}
	}
	digest := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	return digest(before + profile + after), digest(before + after)
}
