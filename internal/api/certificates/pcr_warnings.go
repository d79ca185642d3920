package certificates

import (
	"crypto/x509"
	"strings"
)

// PodChainWarnings returns warnings about the chain of an issued request:
// problems that break no rule on which signers rely.
func PodChainWarnings(chain string) []string {
	leaf, rest, err := nextCertificate([]byte(chain))
	if err != nil || leaf == nil {
		return nil
	}
	var warnings []string
	if leaf.BasicConstraintsValid && leaf.IsCA {
		warnings = append(warnings, "status.certificateChain: the leaf certificate is a CA: its key can issue certificates")
	}
	if issuer, _, err := nextCertificate(rest); err == nil && issuer != nil && !issuedBy(leaf, issuer) {
		warnings = append(warnings, "status.certificateChain: the leaf certificate is not issued by the certificate that follows it: verifiers may find no path to a root")
	}
	if armor := strings.Count(chain, "-----BEGIN "); armor != countBlocks([]byte(chain)) {
		warnings = append(warnings, "status.certificateChain: a PEM block cannot be read and is ignored, like text between blocks")
	}
	return warnings
}

func issuedBy(leaf, issuer *x509.Certificate) bool {
	return string(leaf.RawIssuer) == string(issuer.RawSubject) && leaf.CheckSignatureFrom(issuer) == nil
}

func countBlocks(data []byte) int {
	count := 0
	for {
		certificate, rest, err := nextCertificate(data)
		if certificate == nil || err != nil {
			return count
		}
		count, data = count+1, rest
	}
}
