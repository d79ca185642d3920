package pki

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"time"
)

// The extensions of a list (RFC 5280 section 5.2).
var (
	oidAuthorityKeyID = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidCRLNumber      = asn1.ObjectIdentifier{2, 5, 29, 20}
)

// listContent is a TBSCertList (RFC 5280 section 5.1). Changing a byte of its encoding, or of that
// of entries, makes signatures useless that are stored without their lists.
type listContent struct {
	Version                int
	Algorithm              pkix.AlgorithmIdentifier
	Issuer                 asn1.RawValue
	ThisUpdate, NextUpdate time.Time
	Entries                asn1.RawValue    `asn1:"optional"`
	Extensions             []pkix.Extension `asn1:"explicit,tag:0"`
}

// encode returns the TBSCertList of a list of the CA with entries that are encoded. Without a
// number, it has no extension for it.
func (a *ListAuthority) encode(list List, entries []byte) ([]byte, error) {
	algorithm, err := Content{}.algorithm(a.key.public.PublicKey) // as certificates of the CA have
	if err != nil {
		return nil, err
	}
	content := listContent{
		Version:   1, // v2
		Algorithm: algorithm, Issuer: asn1.RawValue{FullBytes: a.key.public.RawSubject},
		ThisUpdate: list.ThisUpdate.UTC(), NextUpdate: list.NextUpdate.UTC(),
	}
	if len(entries) > 0 {
		content.Entries = asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: entries}
	}
	id, err := authorityKeyID(a.key.public)
	if err != nil {
		return nil, err
	}
	keyID, err := asn1.Marshal(struct {
		KeyID []byte `asn1:"tag:0"`
	}{id})
	if err != nil {
		return nil, err
	}
	content.Extensions = []pkix.Extension{{Id: oidAuthorityKeyID, Value: keyID}}
	if list.Number != nil {
		number, err := asn1.Marshal(list.Number)
		if err != nil {
			return nil, err
		}
		content.Extensions = append(content.Extensions, pkix.Extension{Id: oidCRLNumber, Value: number})
	}
	return asn1.Marshal(content)
}

// wrapList returns the CertificateList (RFC 5280 section 5.1) of a TBSCertList.
func wrapList(tbs, signature []byte) ([]byte, error) {
	members, err := structure(tbs, 5, 7)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}{asn1.RawValue{FullBytes: tbs}, members[1], asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
}

// tagSequence is the tag of SEQUENCE, which is constructed.
const tagSequence = asn1.TagSequence | 0x20

// reasonExtension are the extensions of an entry with a reasonCode (RFC 5280 section 5.3.1),
// but for its last byte, which is the reason.
var reasonExtension = []byte{
	tagSequence, 14 - 2, tagSequence, 14 - 4, asn1.TagOID, 3, 0x55, 0x1d, 0x15,
	asn1.TagOctetString, 3, asn1.TagEnum, 1,
}

// append appends the entry's encoding to b: package asn1 is too slow for long lists. All lengths
// have one octet.
func (e ListEntry) append(b []byte) ([]byte, error) {
	serial := bytes.TrimLeft(e.Serial, "\x00")
	if len(serial) > maxListedSerial {
		return nil, fmt.Errorf("serial number %x must be of at most %d octets", serial, maxListedSerial)
	}
	start := len(b)
	b = append(b, tagSequence, 0, asn1.TagInteger, byte(len(serial)))
	if len(serial) == 0 || serial[0] >= 0x80 { // the first bit is the sign
		b[len(b)-1]++
		b = append(b, 0)
	}
	b = append(b, serial...)
	switch at := e.Time.UTC(); { // RFC 5280 sections 5.1.2.4 to 5.1.2.6
	case at.Year() < 0 || at.Year() > 9999:
		return nil, fmt.Errorf("serial number %x: the year %d cannot be encoded", serial, at.Year())
	case at.Year() >= 1950 && at.Year() < 2050:
		b = at.AppendFormat(append(b, asn1.TagUTCTime, byte(len("YYMMDDhhmmssZ"))), "060102150405Z")
	default:
		b = at.AppendFormat(append(b, asn1.TagGeneralizedTime, byte(len("YYYYMMDDhhmmssZ"))), "20060102150405Z")
	}
	if e.Reason != ReasonUnspecified {
		b = append(append(b, reasonExtension...), byte(e.Reason))
	}
	b[start+1] = byte(len(b) - start - 2)
	return b, nil
}
