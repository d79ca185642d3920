// Package revocation knows which certificates are revoked.
//
// An entry says: this certificate, this reason, from this moment. Entries are only added.
// A certificate is identified by what its signature covers, the authority key identifier and
// the serial number: the holder of an ECDSA-signed certificate can change its fingerprint
// (pki.OtherForm). Those who know fingerprints only look up both.
package revocation

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// Digest is the first half of a SHA-256 digest. Zero means unknown.
type Digest [16]byte

// halfSum returns the first half of the SHA-256 digest of data.
func halfSum(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(sum[:len(Digest{})])
}

// Act is what recorded entries: one Revocation object, or a part of a large one.
type Act struct {
	// UID identifies the act; a part has a suffix.
	UID types.UID `json:"uid"`
	// Of, if not empty, is the act of which this is a part: it has no effect without that act,
	// which is stored last.
	Of types.UID `json:"of,omitempty"`
	// Name is the name of the Revocation.
	Name string `json:"name"`
	// User is who revoked.
	User string `json:"user"`
	// Pending, if not empty, selects pending requests whose certificates are revoked when they are
	// issued.
	Pending string `json:"pending,omitempty"`
	// Revision is the place of the act in the order of all acts: a list covers those up to
	// one. It is not stored: it is the revision at which the store has the act.
	Revision int64 `json:"-"`
}

// Entry is the revocation of one certificate.
type Entry struct {
	// Authority identifies the CA: see AuthorityOf.
	Authority []byte
	// Serial is the serial number, big-endian, without leading zeros.
	Serial []byte
	// Fingerprints identify the certificate and its other form (pki.OtherForm).
	Fingerprints [2]Digest
	// Key is the digest of the public key (SubjectPublicKeyInfo); zero if it is not known.
	Key Digest
	// NotAfter is the end of the certificate, Time when it was revoked; whole seconds.
	NotAfter, Time time.Time
	Reason         pki.Reason
}

// The longest identifiers that an entry can have, in octets. For serial numbers it is the
// limit of RFC 5280 section 4.1.2.2; key identifiers can have any length: longer ones are
// hashed.
const (
	MaxSerial    = 20
	maxAuthority = 32
)

// ByFingerprint is the authority of entries whose CA is not known.
var ByFingerprint = []byte("fingerprint:")

// AuthorityOf returns the identifier of a certificate's CA: the authority key identifier,
// or a digest of the CA's name if the certificate has none.
func AuthorityOf(cert *x509.Certificate) []byte {
	return authority(cert.AuthorityKeyId, cert.RawIssuer)
}

// AuthoritiesOf returns the identifiers that certificates of a CA can have.
func AuthoritiesOf(ca *x509.Certificate) [][]byte {
	ids := [][]byte{authority(nil, ca.RawSubject)}
	if len(ca.SubjectKeyId) > 0 {
		return append(ids, authority(ca.SubjectKeyId, nil))
	}
	if id, err := pki.KeyID(ca.PublicKey); err == nil { // as pki.Authority does
		ids = append(ids, authority(id, nil))
	}
	return ids
}

func authority(keyID, name []byte) []byte {
	switch {
	case len(keyID) == 0:
		sum := halfSum(name)
		return append([]byte("name:"), sum[:]...)
	case len(keyID) > maxAuthority:
		sum := sha256.Sum256(keyID)
		return sum[:]
	}
	return keyID
}

// EntryOf returns the entry of a certificate.
func EntryOf(cert *x509.Certificate, at time.Time, reason pki.Reason) Entry {
	e := Entry{
		Authority: AuthorityOf(cert), Serial: cert.SerialNumber.Bytes(), Fingerprints: [2]Digest{halfSum(cert.Raw)},
		NotAfter: cert.NotAfter.UTC(), Time: at.UTC().Truncate(time.Second), Reason: reason,
	}
	e.Key, _ = KeyOf(cert.PublicKey)
	if der, ok := pki.OtherForm(cert); ok {
		e.Fingerprints[1] = halfSum(der)
	}
	return e
}

// EntryOfRecord returns the entry of a recorded certificate. It has no other fingerprint if
// the record is of a version that did not record it.
func EntryOfRecord(record *inventoryv1alpha1.IssuedCertificate, at time.Time, reason pki.Reason) (Entry, error) {
	facts := &record.Certificate
	serial, err := ParseSerial(facts.SerialNumber)
	if err != nil {
		return Entry{}, fmt.Errorf("record %s: %w", record.Name, err)
	}
	id, err := hex.DecodeString(facts.AuthorityKeyID)
	if err != nil || len(id) == 0 {
		return Entry{}, fmt.Errorf("record %s: it has no authority key identifier, so the certificate must be given as a file", record.Name)
	}
	e := Entry{
		Authority: authority(id, nil), Serial: serial, NotAfter: facts.NotAfter.UTC(), Time: at.UTC().Truncate(time.Second), Reason: reason,
	}
	e.Fingerprints[0], _ = ParseDigest(facts.Fingerprint)
	e.Fingerprints[1], _ = ParseDigest(facts.Twin)
	e.Key, _ = ParseDigest(facts.KeyFingerprint)
	return e, nil
}

// KeyOf returns the digest of a public key; false if no certificate can have it.
func KeyOf(key crypto.PublicKey) (Digest, bool) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return Digest{}, false
	}
	return halfSum(der), true
}

// ParseSerial returns the octets of a serial number in hexadecimal, without leading zeros.
func ParseSerial(text string) ([]byte, error) {
	if len(text)%2 == 1 {
		text = "0" + text
	}
	serial, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a serial number in hexadecimal", text)
	}
	serial = bytes.TrimLeft(serial, "\x00")
	if n := len(serial); n == 0 || n > MaxSerial {
		return nil, fmt.Errorf("the serial number has %d octets: it must be positive, with at most %d (RFC 5280 section 4.1.2.2)", n, MaxSerial)
	}
	return serial, nil
}

// ParseDigest returns the digest that begins a fingerprint in hexadecimal.
func ParseDigest(text string) (d Digest, ok bool) {
	if len(text) < hex.EncodedLen(len(d)) {
		return Digest{}, false
	}
	_, err := hex.Decode(d[:], []byte(text[:hex.EncodedLen(len(d))]))
	return d, err == nil
}

// format is the first byte of encoded entries.
const format = 1

// Encode returns the stored form of an act.
func Encode(act Act, entries []Entry) ([]byte, error) {
	head, err := json.Marshal(act)
	if err != nil {
		return nil, fmt.Errorf("encoding a revocation: %w", err)
	}
	data := appendBytes([]byte{format}, head)
	for _, e := range entries {
		if len(e.Authority) > maxAuthority || len(e.Serial) > MaxSerial {
			return nil, errors.New("encoding a revocation: an identifier is too long")
		}
		data = appendBytes(appendBytes(data, e.Authority), e.Serial)
		data = append(append(append(data, e.Fingerprints[0][:]...), e.Fingerprints[1][:]...), e.Key[:]...)
		data = binary.AppendVarint(binary.AppendVarint(data, e.NotAfter.Unix()), e.Time.Unix())
		data = append(data, byte(e.Reason))
	}
	return data, nil
}

func appendBytes(to, value []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// errDamaged is the error of data that Encode cannot have made.
var errDamaged = errors.New("the stored revocations are damaged")

// Decode returns what Encode has stored.
func Decode(data []byte) (Act, []Entry, error) {
	if len(data) == 0 || data[0] != format {
		return Act{}, nil, fmt.Errorf("%w: unknown format", errDamaged)
	}
	r := reader{data: data[1:]}
	act := Act{}
	if err := json.Unmarshal(r.bytes(), &act); err != nil || r.failed {
		return Act{}, nil, fmt.Errorf("%w: its head cannot be read", errDamaged)
	}
	var entries []Entry
	for len(r.data) > 0 && !r.failed {
		e := Entry{Authority: r.bytes(), Serial: r.bytes()}
		copy(e.Fingerprints[0][:], r.next(len(Digest{})))
		copy(e.Fingerprints[1][:], r.next(len(Digest{})))
		copy(e.Key[:], r.next(len(Digest{})))
		e.NotAfter, e.Time = r.time(), r.time()
		if reason := r.next(1); len(reason) == 1 {
			e.Reason = pki.Reason(reason[0])
		}
		entries = append(entries, e)
		r.failed = r.failed || len(e.Authority) > maxAuthority || len(e.Serial) > MaxSerial
	}
	if r.failed {
		return Act{}, nil, fmt.Errorf("%w: entry %d cannot be read", errDamaged, len(entries))
	}
	return act, entries, nil
}

// reader reads what the append functions have written. After a failure it returns nothing.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) next(n int) []byte {
	if r.failed || n < 0 || n > len(r.data) {
		r.failed = true
		return nil
	}
	value := r.data[:n:n]
	r.data = r.data[n:]
	return value
}

func (r *reader) bytes() []byte {
	n, size := binary.Uvarint(r.data)
	r.next(cmp.Or(size, -1)) // 0 is a failure, too
	return r.next(int(min(n, uint64(len(r.data)+1))))
}

func (r *reader) time() time.Time {
	seconds, size := binary.Varint(r.data)
	r.next(cmp.Or(size, -1))
	return time.Unix(seconds, 0).UTC()
}
