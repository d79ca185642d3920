package keystorefile

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	pkcs12 "software.sslmate.com/src/go-pkcs12"
)

// HasPKCS12 reports whether PKCS12 may have written data: whether it is
// encrypted with the profile, the password decrypts it, and its content equals
// p.
func HasPKCS12(data []byte, p Pair, profile cmv1.PKCS12Profile, password string) bool {
	key, cert, issuers, err := pkcs12.DecodeChain(data, password)
	if err != nil || !hasProfile(data, profile) || !cert.Equal(p.Chain[0]) || !sameCerts(issuers, slices.Concat(p.Chain[1:], p.CAs)) {
		return false
	}
	private, ok := key.(interface{ Equal(crypto.PrivateKey) bool })
	return ok && private.Equal(p.Key)
}

// HasPKCS12Trust reports the same for PKCS12Trust.
func HasPKCS12Trust(data []byte, p Pair, profile cmv1.PKCS12Profile, password string) bool {
	cas, err := pkcs12.DecodeTrustStore(data, password)
	return err == nil && hasProfile(data, profile) && sameCerts(cas, p.CAs)
}

// profileAlgorithms distinguish each profile from those after it.
var profileAlgorithms = []struct {
	profile   cmv1.PKCS12Profile
	algorithm asn1.ObjectIdentifier
}{
	{cmv1.Modern2026PKCS12Profile, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 14}},   // PBMAC1 (RFC 9579)
	{cmv1.Modern2023PKCS12Profile, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}},   // PBES2 (RFC 8018)
	{cmv1.LegacyRC2PKCS12Profile, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 6}}, // RC2 of 40 bits (RFC 7292 appendix C)
	{cmv1.LegacyDESPKCS12Profile, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 3}}, // 3DES (the same)
}

// hasProfile reports whether data is encrypted with a profile. The identifiers
// of the algorithms are not encrypted, and too long to occur by chance.
func hasProfile(data []byte, profile cmv1.PKCS12Profile) bool {
	for _, mark := range profileAlgorithms {
		id, err := asn1.Marshal(mark.algorithm)
		if err == nil && bytes.Contains(data, id) {
			return mark.profile == cmp.Or(profile, cmv1.LegacyRC2PKCS12Profile)
		}
	}
	return false
}

func sameCerts(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, (*x509.Certificate).Equal)
}

// HasJKS reports whether JKS may have written data: whether the password
// decrypts it, and it contains the key with its chain under the alias, and the CAs.
func HasJKS(data []byte, p Pair, alias, password string) bool {
	key, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return false
	}
	entry := jksEntry{alias: alias, key: key, certs: rawOf(p.Chain)}
	return hasEntries(data, append([]jksEntry{entry}, trustedEntries(p.CAs, alias, time.Time{})...), password)
}

// HasJKSTrust reports the same for JKSTrust.
func HasJKSTrust(data []byte, p Pair, password string) bool {
	return hasEntries(data, trustedEntries(p.CAs, "", time.Time{}), password)
}

// hasEntries reports whether a Java keystore has these entries, in any order and
// whenever they were made.
func hasEntries(data []byte, wanted []jksEntry, password string) bool {
	entries, err := readJKS(data, password)
	if err != nil || len(entries) != len(wanted) {
		return false
	}
	return !slices.ContainsFunc(wanted, func(want jksEntry) bool {
		return !slices.ContainsFunc(entries, func(has jksEntry) bool {
			return has.alias == string(javaUTF(strings.ToLower(want.alias))) && bytes.Equal(has.key, want.key) &&
				slices.EqualFunc(has.certs, want.certs, bytes.Equal)
		})
	})
}
