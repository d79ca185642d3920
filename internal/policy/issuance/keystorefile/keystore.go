// Package keystorefile writes keys and certificates in the formats that Java and
// older programs read.
package keystorefile

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// Pair is what a keystore holds.
type Pair struct {
	Key crypto.Signer
	// Chain has the key's certificate first, then its issuers.
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
	data, err := encoder.EncodeTrustStore(p.CAs, password)
	if err != nil {
		return nil, fmt.Errorf("writing PKCS#12 truststore: %w", err)
	}
	return data, nil
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
	store := jks.New()
	entry := jks.PrivateKeyEntry{CreationTime: now, PrivateKey: key}
	for _, cert := range p.Chain {
		entry.CertificateChain = append(entry.CertificateChain, entryOf(cert))
	}
	if password == "" {
		return nil, fmt.Errorf("writing Java keystore: %w", errNoPassword)
	}
	if err := store.SetPrivateKeyEntry(alias, entry, []byte(password)); err != nil {
		return nil, fmt.Errorf("writing Java keystore: %w", err)
	}
	return writeJKS(store, p.CAs, password, now)
}

// JKSTrust returns a Java keystore with only the CAs.
func JKSTrust(p Pair, password string, now time.Time) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("writing Java truststore: %w", errNoPassword)
	}
	return writeJKS(jks.New(), p.CAs, password, now)
}

// writeJKS adds the CAs and encodes the keystore.
func writeJKS(store jks.KeyStore, cas []*x509.Certificate, password string, now time.Time) ([]byte, error) {
	for i, alias := range aliasesOfCAs(store, len(cas)) {
		entry := jks.TrustedCertificateEntry{CreationTime: now, Certificate: entryOf(cas[i])}
		if err := store.SetTrustedCertificateEntry(alias, entry); err != nil {
			return nil, fmt.Errorf("writing Java keystore: %w", err)
		}
	}
	var out bytes.Buffer
	if err := store.Store(&out, []byte(password)); err != nil {
		return nil, fmt.Errorf("writing Java keystore: %w", err)
	}
	return out.Bytes(), nil
}

// aliasesOfCAs returns n of the names ca, ca-1, ca-2 and so on. It skips the
// alias of the key, whose entry would otherwise be overwritten.
func aliasesOfCAs(store jks.KeyStore, n int) []string {
	var aliases []string
	for i, alias := 1, "ca"; len(aliases) < n; i, alias = i+1, fmt.Sprintf("ca-%d", i) {
		if !store.IsPrivateKeyEntry(alias) {
			aliases = append(aliases, alias)
		}
	}
	return aliases
}

func entryOf(cert *x509.Certificate) jks.Certificate {
	return jks.Certificate{Type: "X509", Content: cert.Raw}
}
