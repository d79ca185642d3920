package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// armour matches a line that begins or ends a PEM block, or is meant to.
var armour = regexp.MustCompile(`(?m)^[ \t]*-+ *(BEGIN|END)\b`)

// TrustBundleWarnings returns warnings about a bundle that is valid but
// probably not what its author wants. old is the bundle that it replaces, or
// nil for a new one. The bundle has passed validation, or is the stored one.
func TrustBundleWarnings(bundle, old *certificatesv1.ClusterTrustBundle, now time.Time) []string {
	if old != nil && bundle.Spec.TrustBundle == old.Spec.TrustBundle {
		return nil
	}
	blocks := pemBlocks(bundle.Spec.TrustBundle)
	var expired, cannotSign []int
	for i, block := range blocks {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if now.After(cert.NotAfter) {
			expired = append(expired, i)
		}
		// Without the extension a CA may use its key for everything (RFC 5280
		// 4.2.1.3).
		if cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
			cannotSign = append(cannotSign, i)
		}
	}
	var warnings []string
	if len(expired) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: the CAs of entries %v have expired, so nothing can be verified with them", trustBundlePath, expired))
	}
	if len(cannotSign) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: the key usages of entries %v lack keyCertSign, so most verifiers refuse what these CAs have signed", trustBundlePath, cannotSign))
	}
	return append(warnings, warnOfResidue(bundle.Spec.TrustBundle, blocks)...)
}

// warnOfResidue warns of broken blocks: a PEM decoder skips them as if they
// were text.
func warnOfResidue(text string, blocks []*pem.Block) []string {
	if len(armour.FindAllStringIndex(text, -1)) == 2*len(blocks) {
		return nil
	}
	return []string{fmt.Sprintf("%s: some text looks like PEM blocks but cannot be read as such, and is ignored: only %d of them can be read", trustBundlePath, len(blocks))}
}
