package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/bits"
	"slices"
)

// Content is the content of a certificate request. Every field is optional.
type Content struct {
	// RawSubject is the DER of the subject; nil is an empty subject.
	RawSubject []byte
	Names      AltNames
	// Usages are listed in the request unchanged; nil lists none.
	Usages *Usages
	// Constraints, if not nil, are for a CA certificate.
	Constraints *NameConstraints
	// Algorithm replaces the default signature algorithm for the kind of key.
	Algorithm x509.SignatureAlgorithm
}

// Request makes a PKCS#10 certificate request in PEM, signed with key.
func (c Content) Request(key crypto.Signer) ([]byte, error) {
	template := &x509.CertificateRequest{RawSubject: c.RawSubject, SignatureAlgorithm: c.Algorithm}
	if len(template.RawSubject) == 0 {
		template.RawSubject = slices.Clone(emptyName[:])
	}
	var err error
	if template.ExtraExtensions, err = c.extensions(); err != nil {
		return nil, fmt.Errorf("making certificate request: %w", err)
	}
	return newRequest(template, key)
}

// IsSaidBy reports whether csr has exactly this content, with any key. Without
// Algorithm, csr may be signed with any algorithm.
func (c Content) IsSaidBy(csr *x509.CertificateRequest) (bool, error) {
	extensions, err := c.extensions()
	if err != nil {
		return false, fmt.Errorf("comparing certificate request: %w", err)
	}
	subject := c.RawSubject
	if len(subject) == 0 {
		subject = emptyName[:]
	}
	sameAlgorithm := c.Algorithm == x509.UnknownSignatureAlgorithm || c.Algorithm == csr.SignatureAlgorithm
	return sameAlgorithm && bytes.Equal(subject, csr.RawSubject) && slices.EqualFunc(extensions, csr.Extensions, sameExtension), nil
}

func sameExtension(a, b pkix.Extension) bool {
	return a.Id.Equal(b.Id) && a.Critical == b.Critical && bytes.Equal(a.Value, b.Value)
}

func (c Content) extensions() ([]pkix.Extension, error) {
	var extensions []pkix.Extension
	names, err := c.Names.encode()
	if err != nil {
		return nil, err
	}
	if names != nil {
		nameless := len(c.RawSubject) == 0 || bytes.Equal(c.RawSubject, emptyName[:])
		extensions = append(extensions, pkix.Extension{Id: OIDSubjectAltName, Critical: nameless, Value: names})
	}
	if c.Usages != nil {
		if extensions, err = appendUsages(extensions, *c.Usages); err != nil {
			return nil, err
		}
	}
	if c.Constraints == nil {
		return extensions, nil
	}
	constraints, err := c.Constraints.encode()
	if err != nil {
		return nil, err
	}
	if constraints != nil {
		extensions = append(extensions, pkix.Extension{Id: OIDNameConstraints, Critical: c.Constraints.Critical, Value: constraints})
	}
	return extensions, nil
}

// appendUsages appends the extensions for usages, each only if it lists at
// least one.
func appendUsages(extensions []pkix.Extension, usages Usages) ([]pkix.Extension, error) {
	if usages.Key != 0 {
		value, err := asn1.Marshal(keyUsageBits(usages.Key))
		if err != nil {
			return nil, fmt.Errorf("encoding key usage: %w", err)
		}
		extensions = append(extensions, pkix.Extension{Id: OIDKeyUsage, Critical: true, Value: value})
	}
	if len(usages.Extended) == 0 {
		return extensions, nil
	}
	var oids []asn1.ObjectIdentifier
	for _, usage := range usages.Extended {
		i := slices.IndexFunc(extKeyUsages, func(known extUsage) bool { return known.usage == usage })
		if i < 0 {
			return nil, fmt.Errorf("extended key usage %d is not known", usage)
		}
		oids = append(oids, extKeyUsages[i].id)
	}
	value, err := asn1.Marshal(oids)
	if err != nil {
		return nil, fmt.Errorf("encoding extended key usage: %w", err)
	}
	return append(extensions, pkix.Extension{Id: OIDExtKeyUsage, Value: value}), nil
}

// keyUsageBits has the lowest bit of usage first, and ends with the last bit
// that is set, as X.690 section 11.2.2 requires.
func keyUsageBits(usage x509.KeyUsage) asn1.BitString {
	length := bits.Len(uint(usage))
	octets := make([]byte, (length+7)/8)
	for i := range length {
		if usage&(1<<i) != 0 {
			octets[i/8] |= 0x80 >> (i % 8)
		}
	}
	return asn1.BitString{Bytes: octets, BitLength: length}
}
