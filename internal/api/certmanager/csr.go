package certmanager

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// Extensions of RFC 5280 sections 4.2.1.3, 4.2.1.9 and 4.2.1.12.
var (
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}
)

// ParseRequest reads the certificate request in the first PEM block of data,
// whatever the block calls itself. What follows it is ignored.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > pki.MaxRequestBytes {
		return nil, fmt.Errorf("is %d bytes long, more than %d", len(data), pki.MaxRequestBytes)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("has no PEM block")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its first PEM block is no PKCS #10 certificate request: %w", err)
	}
	return req, nil
}

// CheckRequest reports why spec.request cannot be signed as the other fields
// ask. What a request says of itself must be what they say: it may have been
// made by somebody else. Pieces that it does not mention are theirs to decide.
func CheckRequest(spec *cmv1.CertificateRequestSpec) error {
	usages, err := Usages(spec.Usages, spec.IsCA)
	if err != nil {
		return err
	}
	req, err := ParseRequest(spec.Request)
	if err != nil {
		return fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(req); err != nil {
		return fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	return CheckContent(req, usages, spec.IsCA)
}

// CheckContent reports what a request says of itself that differs from what it
// was sent with, if it says anything.
func CheckContent(req *x509.CertificateRequest, usages pki.Usages, isCA bool) error {
	if err := checkCA(req, isCA); err != nil {
		return err
	}
	return checkUsages(req, usages)
}

func extension(req *x509.CertificateRequest, id asn1.ObjectIdentifier) (value []byte, there bool) {
	for _, e := range req.Extensions {
		if e.Id.Equal(id) {
			return e.Value, true
		}
	}
	return nil, false
}

// checkCA leaves the path length aside: no field says what it is to be.
func checkCA(req *x509.CertificateRequest, wanted bool) error {
	value, there := extension(req, oidBasicConstraints)
	if !there {
		return nil
	}
	var constraints struct {
		IsCA    bool `asn1:"optional"`
		PathLen int  `asn1:"optional,default:-1"`
	}
	if rest, err := asn1.Unmarshal(value, &constraints); err != nil || len(rest) > 0 {
		return errors.New("encoded CSR error: malformed basic constraints")
	}
	if constraints.IsCA != wanted {
		return fmt.Errorf("encoded CSR error: IsCA %t does not match expected value %t", constraints.IsCA, wanted)
	}
	return nil
}

// checkUsages takes both extensions together: a request with one of them means
// the other one to be empty. The order of purposes does not matter, nor do
// those that have no name in the API.
func checkUsages(req *x509.CertificateRequest, wanted pki.Usages) error {
	bits, hasKey := extension(req, oidKeyUsage)
	purposes, hasExtended := extension(req, oidExtKeyUsage)
	if !hasKey && !hasExtended {
		return nil
	}
	var got pki.Usages
	var err error
	if hasKey {
		if got.Key, err = parseKeyUsage(bits); err != nil {
			return err
		}
	}
	if hasExtended {
		if got.Extended, err = parseExtKeyUsage(purposes); err != nil {
			return err
		}
	}
	if got.Key != wanted.Key {
		return fmt.Errorf("encoded CSR error: the KeyUsages %s do not match the expected KeyUsages %s",
			quoted(pki.Usages{Key: got.Key}.Names()), quoted(pki.Usages{Key: wanted.Key}.Names()))
	}
	if !slices.Equal(got.Extended, wanted.Extended) {
		return fmt.Errorf("encoded CSR error: the ExtKeyUsages %s do not match the expected ExtKeyUsages %s",
			quoted(pki.Usages{Extended: got.Extended}.Names()), quoted(pki.Usages{Extended: wanted.Extended}.Names()))
	}
	return nil
}

func parseKeyUsage(value []byte) (x509.KeyUsage, error) {
	var bits asn1.BitString
	if rest, err := asn1.Unmarshal(value, &bits); err != nil || len(rest) > 0 {
		return 0, errors.New("encoded CSR error: malformed key usage")
	}
	var usage x509.KeyUsage
	for i := range 9 { // digitalSignature is bit 0, decipherOnly bit 8
		usage |= x509.KeyUsage(bits.At(i) << i)
	}
	return usage, nil
}

func parseExtKeyUsage(value []byte) ([]x509.ExtKeyUsage, error) {
	var ids []asn1.ObjectIdentifier
	if rest, err := asn1.Unmarshal(value, &ids); err != nil || len(rest) > 0 {
		return nil, errors.New("encoded CSR error: malformed extended key usage")
	}
	return pki.ExtKeyUsagesOf(ids), nil
}
