package certmanager

import (
	"crypto/x509"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Usages returns what the key of a certificate may be used for: the listed usages or,
// without any, digital signatures and key encipherment. A CA signs certificates, whether
// that is listed or not.
func Usages(listed []cmv1.KeyUsage, isCA bool) (pki.Usages, error) {
	if len(listed) == 0 {
		listed = cmv1.DefaultKeyUsages()
	}
	usages, err := pki.ParseUsages(listed)
	if isCA {
		usages.Key |= x509.KeyUsageCertSign
	}
	return usages, err
}

// quoted formats names in the form that clients expect in refusals.
func quoted(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	var text strings.Builder
	for i, name := range names {
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, " '%s'", name)
	}
	return "[" + text.String() + " ]"
}
