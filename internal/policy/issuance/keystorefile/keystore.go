// Package keystorefile writes keys and certificates in the formats that Java and
// older programs read.
package keystorefile

import (
	"cmp"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	pkcs12 "software.sslmate.com/src/go-pkcs12"

	"github.com/certplane/certplane/internal/pki"
)

// Pair is the content of a keystore.
type Pair struct {
	Key crypto.Signer
	// Chain contains the key's certificate first, then its issuers.
	Chain []*x509.Certificate
	// CAs are the CAs to trust; it may be empty.
	CAs []*x509.Certificate
}

var errNoPassword = errors.New("the password is empty")

// encoders are the ways to encrypt PKCS#12. No program reads all of them.
var encoders = map[cmv1.PKCS12Profile]*pkcs12.Encoder{
	"":                           pkcs12.LegacyRC2,
	cmv1.LegacyRC2PKCS12Profile:  pkcs12.LegacyRC2,
	cmv1.LegacyDESPKCS12Profile:  pkcs12.LegacyDES,
	cmv1.Modern2023PKCS12Profile: pkcs12.Modern2023,
	cmv1.Modern2026PKCS12Profile: pkcs12.Modern2026,
}

func encoder(profile cmv1.PKCS12Profile, password string) (*pkcs12.Encoder, error) {
	encoder, known := encoders[profile]
	switch {
	case !known:
		return nil, fmt.Errorf("the profile %q is not known", profile)
	case password == "":
		return nil, errNoPassword
	}
	return encoder, nil
}

// PKCS12 returns a PKCS#12 keystore (RFC 7292) with the key, its chain and the
// CAs.
func PKCS12(p Pair, profile cmv1.PKCS12Profile, password string) ([]byte, error) {
	encoder, err := encoder(profile, password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 keystore: %w", err)
	}
	issuers := slices.Concat(p.Chain[1:], p.CAs)
	data, err := encoder.Encode(p.Key, p.Chain[0], issuers, password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 keystore: %w", err)
	}
	return data, nil
}

// PKCS12Trust returns a PKCS#12 keystore with only the CAs.
func PKCS12Trust(p Pair, profile cmv1.PKCS12Profile, password string) ([]byte, error) {
	encoder, err := encoder(profile, password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 truststore: %w", err)
	}
	data, err := encoder.EncodeTrustStoreEntries(trustEntries(p.CAs), password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 truststore: %w", err)
	}
	return data, nil
}

// trustEntries names each CA by its subject. Java takes the name for an alias, which
// names one entry and ignores case: a name that occurs again gets a number.
func trustEntries(cas []*x509.Certificate) []pkcs12.TrustStoreEntry {
	used := make(map[string]bool)
	var entries []pkcs12.TrustStoreEntry
	for _, ca := range cas {
		subject := cmp.Or(ca.Subject.String(), "CA")
		if strings.ContainsFunc(subject, func(c rune) bool { return c > 0xffff }) {
			subject = "CA" // the name has to be of two octets a character
		}
		name := subject
		for i := 2; used[aliasKey(name)]; i++ {
			name = fmt.Sprintf("%s (%d)", subject, i)
		}
		used[aliasKey(name)] = true
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: ca, FriendlyName: name})
	}
	return entries
}

// aliasKey is equal for aliases that could be taken for the same.
func aliasKey(alias string) string {
	return strings.ToLower(strings.ToUpper(strings.Join(strings.Fields(alias), " ")))
}

// DefaultAlias is the name of the key in a Java keystore.
const DefaultAlias = "certificate"

// JKS returns a Java keystore with the key and its chain under alias, and the
// CAs. now is the creation time of the entries.
func JKS(p Pair, alias, password string, now time.Time) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return nil, fmt.Errorf("writing Java keystore: %w", err)
	}
	if password == "" {
		return nil, fmt.Errorf("writing Java keystore: %w", errNoPassword)
	}
	entry := jksEntry{alias: alias, made: now, key: key, certs: rawOf(p.Chain)}
	data, err := writeJKS(append([]jksEntry{entry}, trustedEntries(p.CAs, alias, now)...), password)
	if err != nil {
		return nil, fmt.Errorf("writing Java keystore: %w", err)
	}
	return data, nil
}

// JKSTrust returns a Java keystore with only the CAs.
func JKSTrust(p Pair, password string, now time.Time) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("writing Java truststore: %w", errNoPassword)
	}
	data, err := writeJKS(trustedEntries(p.CAs, "", now), password)
	if err != nil {
		return nil, fmt.Errorf("writing Java truststore: %w", err)
	}
	return data, nil
}

// trustedEntries names the CAs ca, ca-1, ca-2 and so on. It skips the alias of the
// key, whose entry would otherwise be overwritten.
func trustedEntries(cas []*x509.Certificate, taken string, now time.Time) []jksEntry {
	var entries []jksEntry
	for i, alias := 1, "ca"; len(entries) < len(cas); i, alias = i+1, fmt.Sprintf("ca-%d", i) {
		if !strings.EqualFold(alias, taken) {
			entries = append(entries, jksEntry{alias: alias, made: now, certs: rawOf(cas[len(entries):][:1])})
		}
	}
	return entries
}

func rawOf(certs []*x509.Certificate) [][]byte {
	var raw [][]byte
	for _, cert := range certs {
		raw = append(raw, cert.Raw)
	}
	return raw
}

// RootsJKS returns a Java keystore of certificates to trust, under the aliases of rootAliases.
// The time of an entry is when its certificate became valid: the result is always the same.
func RootsJKS(certs []*x509.Certificate, password string) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("writing Java truststore: %w", errNoPassword)
	}
	var entries []jksEntry
	for i, alias := range rootAliases(certs) {
		entries = append(entries, jksEntry{alias: alias, made: certs[i].NotBefore, certs: rawOf(certs[i : i+1])})
	}
	return writeJKS(entries, password)
}

// RootsPKCS12 returns a PKCS#12 keystore of certificates to trust, under the aliases of
// rootAliases. Without a password, it has neither encryption nor a hash, whatever the profile.
func RootsPKCS12(certs []*x509.Certificate, profile cmv1.PKCS12Profile, password string) ([]byte, error) {
	encoder, known := encoders[profile]
	if !known {
		return nil, fmt.Errorf("writing PKCS#12 truststore: the profile %q is not known", profile)
	}
	if password == "" {
		encoder = pkcs12.Passwordless
	}
	var entries []pkcs12.TrustStoreEntry
	for i, alias := range rootAliases(certs) {
		entries = append(entries, pkcs12.TrustStoreEntry{Cert: certs[i], FriendlyName: alias})
	}
	return encoder.EncodeTrustStoreEntries(entries, password)
}

// rootAliases returns the aliases that trust-manager gives to certificates: eight hexadecimal
// digits of the SHA-256 hash, a bar and the subject. Java keeps one entry for each alias:
// certificates made to have equal ones get all digits. A subject that is too long, or that
// PKCS#12 cannot hold, is left out.
func rootAliases(certs []*x509.Certificate) (aliases []string) {
	used := map[string]bool{}
	for _, cert := range certs {
		fingerprint, subject := pki.Fingerprint(cert), cert.Subject.String()
		if len(subject) > 1000 || strings.ContainsFunc(subject, func(c rune) bool { return c > 0xffff }) {
			subject = "CA"
		}
		alias := fingerprint[:8] + "|" + subject
		if used[aliasKey(alias)] {
			alias = fingerprint + "|" + subject
		}
		used[aliasKey(alias)] = true
		aliases = append(aliases, alias)
	}
	return aliases
}
