// Package keystore writes keys and certificates the way in which Java and older
// programs read them.
package keystore

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
	// CAs are those to trust; none is fine.
	CAs []*x509.Certificate
}

var errNoPassword = errors.New("the password is empty")

// encoders are the ways to encrypt PKCS#12, of which no program reads all.
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

// PKCS12 writes a keystore of PKCS#12 (RFC 7292) with the key, its chain and
// the CAs.
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

// PKCS12Trust writes a keystore of PKCS#12 with the CAs alone.
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

// JKS writes a Java keystore with the key and its chain under alias, and the
// CAs. The entries say that they were made at the moment now.
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

// JKSTrust writes a Java keystore with the CAs alone.
func JKSTrust(p Pair, password string, now time.Time) ([]byte, error) {
	if password == "" {
		return nil, fmt.Errorf("writing Java truststore: %w", errNoPassword)
	}
	return writeJKS(jks.New(), p.CAs, password, now)
}

// writeJKS adds the CAs as ca, ca-1, ca-2 and so on.
func writeJKS(store jks.KeyStore, cas []*x509.Certificate, password string, now time.Time) ([]byte, error) {
	for i, ca := range cas {
		alias := "ca"
		if i > 0 {
			alias = fmt.Sprintf("ca-%d", i)
		}
		if err := store.SetTrustedCertificateEntry(alias, jks.TrustedCertificateEntry{CreationTime: now, Certificate: entryOf(ca)}); err != nil {
			return nil, fmt.Errorf("writing Java keystore: %w", err)
		}
	}
	var out bytes.Buffer
	if err := store.Store(&out, []byte(password)); err != nil {
		return nil, fmt.Errorf("writing Java keystore: %w", err)
	}
	return out.Bytes(), nil
}

func entryOf(cert *x509.Certificate) jks.Certificate {
	return jks.Certificate{Type: "X509", Content: cert.Raw}
}

// HasPKCS12 tells whether PKCS12 may have written data: whether the password
// opens it, and the key and its certificate are those of p.
func HasPKCS12(data []byte, p Pair, password string) bool {
	key, cert, _, err := pkcs12.DecodeChain(data, password)
	if err != nil || !cert.Equal(p.Chain[0]) {
		return false
	}
	private, ok := key.(interface{ Equal(crypto.PrivateKey) bool })
	return ok && private.Equal(p.Key)
}

// HasJKS tells whether JKS may have written data: whether the password opens
// it, and the key and its chain are under the alias.
func HasJKS(data []byte, p Pair, alias, password string) bool {
	store := jks.New()
	if err := store.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return false
	}
	entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
	if err != nil {
		return false
	}
	key, err := x509.MarshalPKCS8PrivateKey(p.Key)
	return err == nil && bytes.Equal(entry.PrivateKey, key) && slices.EqualFunc(entry.CertificateChain, p.Chain, func(e jks.Certificate, c *x509.Certificate) bool {
		return bytes.Equal(e.Content, c.Raw)
	})
}
