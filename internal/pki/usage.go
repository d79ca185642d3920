package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
)

// Usages are the permitted uses of a certificate's key.
type Usages struct {
	Key      x509.KeyUsage
	Extended []x509.ExtKeyUsage
}

// ParseUsages translates the usage names of the Kubernetes certificates API
// into X.509. The extended usages are sorted and without duplicates, so that
// the certificate does not depend on the order in a request. Two names can mean
// one bit: "signing" is "digital signature", and "s/mime" is "email
// protection".
func ParseUsages[U ~string](names []U) (Usages, error) {
	usages, err := ParseUsagesInOrder(names)
	slices.Sort(usages.Extended)
	return usages, err
}

// ParseUsagesInOrder is like ParseUsages, but returns the extended usages in
// the order in which they are first listed.
func ParseUsagesInOrder[U ~string](names []U) (Usages, error) {
	var usages Usages
	var unknown []U
	for _, name := range names {
		if bit, ok := keyUsage(string(name)); ok {
			usages.Key |= bit
		} else if extended, ok := extKeyUsage(string(name)); ok {
			if !slices.Contains(usages.Extended, extended) {
				usages.Extended = append(usages.Extended, extended)
			}
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return Usages{}, fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	return usages, nil
}

// UsagesOf returns the usages of a certificate.
func UsagesOf(cert *x509.Certificate) Usages {
	return Usages{Key: cert.KeyUsage, Extended: cert.ExtKeyUsage}
}

// Names returns the names of usages, one for each.
func (u Usages) Names() []string {
	var names []string
	named := x509.KeyUsage(0)
	for _, usage := range keyUsages[1:] { // the first is another name of the second
		if u.Key&usage.bit&^named != 0 {
			names, named = append(names, usage.name), named|usage.bit
		}
	}
	for _, extended := range u.Extended {
		i := slices.IndexFunc(extKeyUsages, func(known extUsage) bool { return known.usage == extended })
		if i >= 0 {
			names = append(names, extKeyUsages[i].name)
		}
	}
	return names
}

func keyUsage(name string) (x509.KeyUsage, bool) {
	for _, u := range keyUsages {
		if u.name == name {
			return u.bit, true
		}
	}
	return 0, false
}

func extKeyUsage(name string) (x509.ExtKeyUsage, bool) {
	for _, u := range extKeyUsages {
		if u.name == name {
			return u.usage, true
		}
	}
	return 0, false
}

// keyUsages are the bits of RFC 5280 section 4.2.1.3.
var keyUsages = []struct {
	name string
	bit  x509.KeyUsage
}{
	{"signing", x509.KeyUsageDigitalSignature},
	{"digital signature", x509.KeyUsageDigitalSignature},
	{"content commitment", x509.KeyUsageContentCommitment},
	{"key encipherment", x509.KeyUsageKeyEncipherment},
	{"key agreement", x509.KeyUsageKeyAgreement},
	{"data encipherment", x509.KeyUsageDataEncipherment},
	{"cert sign", x509.KeyUsageCertSign},
	{"crl sign", x509.KeyUsageCRLSign},
	{"encipher only", x509.KeyUsageEncipherOnly},
	{"decipher only", x509.KeyUsageDecipherOnly},
}

type extUsage struct {
	name  string
	usage x509.ExtKeyUsage
	id    asn1.ObjectIdentifier
}

// extKeyUsages are the purposes of RFC 5280 section 4.2.1.12, plus older ones
// that the certificates API names.
var extKeyUsages = []extUsage{
	{"any", x509.ExtKeyUsageAny, oidAnyPurpose},
	{"server auth", x509.ExtKeyUsageServerAuth, purpose(1)},
	{"client auth", x509.ExtKeyUsageClientAuth, purpose(2)},
	{"code signing", x509.ExtKeyUsageCodeSigning, purpose(3)},
	{"email protection", x509.ExtKeyUsageEmailProtection, purpose(4)},
	{"s/mime", x509.ExtKeyUsageEmailProtection, purpose(4)},
	{"ipsec end system", x509.ExtKeyUsageIPSECEndSystem, purpose(5)},
	{"ipsec tunnel", x509.ExtKeyUsageIPSECTunnel, purpose(6)},
	{"ipsec user", x509.ExtKeyUsageIPSECUser, purpose(7)},
	{"timestamping", x509.ExtKeyUsageTimeStamping, purpose(8)},
	{"ocsp signing", x509.ExtKeyUsageOCSPSigning, purpose(9)},
	{"microsoft sgc", x509.ExtKeyUsageMicrosoftServerGatedCrypto, oidMicrosoftSGC},
	{"netscape sgc", x509.ExtKeyUsageNetscapeServerGatedCrypto, oidNetscapeSGC},
}

// ExtKeyUsagesOf returns the purposes with these identifiers, sorted and without repeats. It
// omits purposes without a name in the certificates API.
func ExtKeyUsagesOf(ids []asn1.ObjectIdentifier) []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	for _, known := range extKeyUsages {
		if slices.ContainsFunc(ids, func(id asn1.ObjectIdentifier) bool { return id.Equal(known.id) }) {
			usages = append(usages, known.usage)
		}
	}
	slices.Sort(usages)
	return slices.Compact(usages)
}

// isNamedPurpose reports whether a purpose has a name in the certificates API.
func isNamedPurpose(id asn1.ObjectIdentifier) bool {
	return slices.ContainsFunc(extKeyUsages, func(known extUsage) bool { return known.id.Equal(id) })
}
