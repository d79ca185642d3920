package pki

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"math/bits"
	"time"
)

// The tags that package asn1 has no constants for: SEQUENCE is constructed, and extensions
// are in the explicit tag 0.
const (
	tagSequence   = asn1.TagSequence | 0x20
	tagExtensions = 0xa0
)

// The extensions of a list (RFC 5280 section 5.2).
var (
	oidAuthorityKeyID = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidCRLNumber      = asn1.ObjectIdentifier{2, 5, 29, 20}
	oidReasonCode     = asn1.ObjectIdentifier{2, 5, 29, 21} // of an entry
)

// listHead is the content of a list but its entries. Changing a byte of its encoding, or of
// that of entries, makes signatures useless that are stored without their lists.
type listHead struct {
	algorithm  pkix.AlgorithmIdentifier
	issuer     []byte // the encoded name
	keyID      []byte
	number     *big.Int // nil leaves the extension out, for the linter to find
	thisUpdate time.Time
	nextUpdate time.Time
}

// head returns the parts of a TBSCertList before the entries.
func (h listHead) head() ([]byte, error) {
	algorithm, err := asn1.Marshal(h.algorithm)
	if err != nil {
		return nil, err
	}
	b := []byte{asn1.TagInteger, 1, 1} // v2
	b = append(append(b, algorithm...), h.issuer...)
	if b, err = appendTime(b, h.thisUpdate); err != nil {
		return nil, fmt.Errorf("thisUpdate: %w", err)
	}
	if b, err = appendTime(b, h.nextUpdate); err != nil {
		return nil, fmt.Errorf("nextUpdate: %w", err)
	}
	return b, nil
}

// tail returns the parts of a TBSCertList after the entries.
func (h listHead) tail() ([]byte, error) {
	id, err := asn1.Marshal(struct {
		KeyID []byte `asn1:"tag:0"`
	}{h.keyID})
	if err != nil {
		return nil, err
	}
	extensions := []pkix.Extension{{Id: oidAuthorityKeyID, Value: id}}
	if h.number != nil {
		number, err := asn1.Marshal(h.number)
		if err != nil {
			return nil, err
		}
		extensions = append(extensions, pkix.Extension{Id: oidCRLNumber, Value: number})
	}
	encoded, err := asn1.Marshal(extensions)
	if err != nil {
		return nil, err
	}
	return append(appendHeader(nil, tagExtensions, len(encoded)), encoded...), nil
}

// encode returns the list's TBSCertList. It makes one allocation for all entries.
func (h listHead) encode(list List) (encodedList, error) {
	head, err := h.head()
	if err != nil {
		return encodedList{}, err
	}
	tail, err := h.tail()
	if err != nil {
		return encodedList{}, err
	}
	identifier, err := asn1.Marshal(h.algorithm)
	if err != nil {
		return encodedList{}, err
	}
	size, err := entriesSize(list)
	if err != nil {
		return encodedList{}, err
	}
	if size > 0 {
		head = appendHeader(head, tagSequence, size)
	}
	content := len(head) + size + len(tail)
	buffer := make([]byte, listRoom, 2*listRoom+content+signatureRoom)
	buffer = append(appendHeader(buffer, tagSequence, content), head...)
	end := len(buffer) + size
	for entry := range list.entries() {
		if buffer, err = entry.append(buffer); err != nil {
			return encodedList{}, err
		}
		if len(buffer) > end {
			break
		}
	}
	if len(buffer) != end {
		return encodedList{}, errors.New("the entries have changed while they were encoded")
	}
	return encodedList{buffer: append(buffer, tail...), identifier: identifier}, nil
}

func (l List) entries() iter.Seq[ListEntry] {
	if l.Entries == nil {
		return func(func(ListEntry) bool) {}
	}
	return l.Entries
}

func entriesSize(list List) (size int, err error) {
	var buffer []byte
	for entry := range list.entries() {
		if buffer, err = entry.append(buffer[:0]); err != nil {
			return 0, err
		}
		size += len(buffer)
	}
	return size, nil
}

// reasonExtension are the extensions of an entry with a reasonCode (RFC 5280 section 5.3.1),
// but for its last byte, which is the reason.
var reasonExtension = []byte{
	tagSequence, 14 - 2, tagSequence, 14 - 4, asn1.TagOID, 3, 0x55, 0x1d, 0x15,
	asn1.TagOctetString, 3, asn1.TagEnum, 1,
}

// append appends the entry's encoding to b.
func (e ListEntry) append(b []byte) ([]byte, error) {
	var room [64]byte
	content, err := appendTime(appendInteger(room[:0], e.Serial), e.Time)
	if err != nil {
		return nil, fmt.Errorf("entry of serial number %x: %w", e.Serial, err)
	}
	if e.Reason != ReasonUnspecified {
		content = append(append(content, reasonExtension...), byte(e.Reason))
	}
	return append(appendHeader(b, tagSequence, len(content)), content...), nil
}

// appendInteger appends a number that is not negative.
func appendInteger(b, magnitude []byte) []byte {
	magnitude = bytes.TrimLeft(magnitude, "\x00")
	if len(magnitude) > 0 && magnitude[0] < 0x80 {
		return append(appendHeader(b, asn1.TagInteger, len(magnitude)), magnitude...)
	}
	return append(append(appendHeader(b, asn1.TagInteger, len(magnitude)+1), 0), magnitude...)
}

// appendTime appends a time by RFC 5280 sections 5.1.2.4 to 5.1.2.6.
func appendTime(b []byte, t time.Time) ([]byte, error) {
	t = t.UTC()
	switch year := t.Year(); {
	case year < 0 || year > 9999:
		return nil, fmt.Errorf("the year %d cannot be encoded", year)
	case year >= 1950 && year < 2050:
		b = appendHeader(b, asn1.TagUTCTime, len("YYMMDDhhmmssZ"))
		return t.AppendFormat(b, "060102150405Z"), nil
	}
	b = appendHeader(b, asn1.TagGeneralizedTime, len("YYYYMMDDhhmmssZ"))
	return t.AppendFormat(b, "20060102150405Z"), nil
}

// appendHeader appends the tag and the length of a value (X.690 section 10.1).
func appendHeader(b []byte, tag byte, length int) []byte {
	if length < 0x80 {
		return append(b, tag, byte(length))
	}
	octets := (bits.Len(uint(length)) + 7) / 8
	b = append(b, tag, 0x80|byte(octets))
	for i := octets - 1; i >= 0; i-- {
		b = append(b, byte(length>>(8*i)))
	}
	return b
}
