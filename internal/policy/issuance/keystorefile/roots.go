package keystorefile

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// RootsJKS returns a Java keystore of certificates to trust. Each has an alias as in
// rootAlias, and was made when it became valid: equal certificates have equal keystores.
func RootsJKS(certs []*x509.Certificate, password string) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("writing Java truststore: %w", errNoPassword)
	}
	var entries []jksEntry
	used := map[string]bool{}
	for _, cert := range certs {
		entries = append(entries, jksEntry{alias: rootAlias(cert, used), made: cert.NotBefore, certs: [][]byte{cert.Raw}})
	}
	data, err := writeJKS(entries, password)
	if err != nil {
		return nil, fmt.Errorf("writing Java truststore: %w", err)
	}
	return data, nil
}

// RootsPKCS12 returns a PKCS#12 keystore of certificates to trust, under the aliases of
// rootAlias. Without a password, it is neither encrypted nor has it a hash, whatever the
// profile; Java reads it from version 18 on.
func RootsPKCS12(certs []*x509.Certificate, profile cmv1.PKCS12Profile, password string) ([]byte, error) {
	encoder, known := encoders[profile]
	switch {
	case !known:
		return nil, fmt.Errorf("writing PKCS#12 truststore: the profile %q is not known", profile)
	case password == "":
		encoder = pkcs12.Passwordless
	}
	var entries []pkcs12.TrustStoreEntry
	used := map[string]bool{}
	for _, cert := range certs {
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: cert, FriendlyName: rootAlias(cert, used)})
	}
	data, err := encoder.EncodeTrustStoreEntries(entries, password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 truststore: %w", err)
	}
	return data, nil
}

// mostSubject is the longest subject in an alias, in bytes. The alias of a Java keystore has
// fewer than 65,536.
const mostSubject = 1000

// rootAlias returns the alias of a certificate that trust-manager gives it: eight hexadecimal
// digits of its SHA-256 hash, a bar and its subject. Java ignores the case of aliases, and
// keeps one entry for each: certificates made to have an equal alias get all digits.
func rootAlias(cert *x509.Certificate, used map[string]bool) string {
	digest := sha256.Sum256(cert.Raw)
	digits, subject := hex.EncodeToString(digest[:]), cert.Subject.String()
	if len(subject) > mostSubject || strings.ContainsFunc(subject, func(c rune) bool { return c > 0xffff }) {
		subject = "CA" // as in trustEntries
	}
	alias := digits[:8] + "|" + subject
	if used[aliasKey(alias)] {
		alias = digits + "|" + subject
	}
	used[aliasKey(alias)] = true
	return alias
}
