package rfc8555

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// TLSALPNProtocol is the only protocol that a tls-alpn-01 validation offers (RFC
// 8737 section 6.2).
const TLSALPNProtocol = "acme-tls/1"

var (
	// AcmeIdentifier is the OID of the extension with the hash of the key
	// authorization (RFC 8737 section 6.1).
	AcmeIdentifier = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}
	subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// Tags of general names (RFC 5280 section 4.2.1.6).
const (
	tagDNSName   = 2
	tagIPAddress = 7
)

// CheckTLSALPN returns an error unless a certificate answers a tls-alpn-01 challenge for a
// name or an address with this key authorization (RFC 8737 section 3, RFC 8738 section 6).
// Dates and names in the subject are ignored.
func CheckTLSALPN(certificate *x509.Certificate, host, keyAuthorization string) error {
	if err := checkAlternativeName(certificate.Extensions, host); err != nil {
		return err
	}
	if err := checkAcmeIdentifier(certificate.Extensions, keyAuthorization); err != nil {
		return err
	}
	for i, extension := range certificate.Extensions {
		for _, other := range certificate.Extensions[:i] {
			if extension.Id.Equal(other.Id) {
				return fmt.Errorf("its certificate has the extension %s twice", extension.Id)
			}
		}
	}
	if !bytes.Equal(certificate.RawIssuer, certificate.RawSubject) ||
		certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature) != nil {
		return errors.New("its certificate is not self-signed")
	}
	return nil
}

// only returns the extension with an OID, if exactly one exists.
func only(extensions []pkix.Extension, id asn1.ObjectIdentifier) (found pkix.Extension, count int) {
	for _, extension := range extensions {
		if extension.Id.Equal(id) {
			found = extension
			count++
		}
	}
	return found, count
}

// checkAlternativeName returns an error unless the name or the address is the only
// alternative name of any type.
func checkAlternativeName(extensions []pkix.Extension, host string) error {
	extension, count := only(extensions, subjectAltName)
	if count != 1 {
		return fmt.Errorf("its certificate has %d extensions subjectAltName, expected 1", count)
	}
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(extension.Value, &names); err != nil || len(rest) > 0 {
		return errors.New("the extension subjectAltName of its certificate cannot be read")
	}
	if len(names) != 1 {
		return fmt.Errorf("its certificate has %d alternative names, expected 1", len(names))
	}
	// Compare the lengths as well: some non-ASCII letters fold to ASCII letters, but are
	// longer.
	tag, same := tagDNSName, len(names[0].Bytes) == len(host) && strings.EqualFold(string(names[0].Bytes), host)
	if address, err := netip.ParseAddr(host); err == nil {
		tag, same = tagIPAddress, bytes.Equal(names[0].Bytes, address.AsSlice())
	}
	if names[0].Class != asn1.ClassContextSpecific || names[0].IsCompound || names[0].Tag != tag || !same {
		return errors.New("its certificate is for another name")
	}
	return nil
}

func checkAcmeIdentifier(extensions []pkix.Extension, keyAuthorization string) error {
	extension, count := only(extensions, AcmeIdentifier)
	var got []byte
	want := sha256.Sum256([]byte(keyAuthorization))
	switch {
	case count == 0:
		return errors.New("its certificate has no extension acmeIdentifier: it is not one of a challenge")
	case count > 1:
		return errors.New("its certificate has the extension acmeIdentifier twice")
	case !extension.Critical:
		return errors.New("the extension acmeIdentifier of its certificate is not critical")
	}
	if rest, err := asn1.Unmarshal(extension.Value, &got); err != nil || len(rest) > 0 || subtle.ConstantTimeCompare(got, want[:]) != 1 {
		return errors.New("its certificate is that of another challenge")
	}
	return nil
}
