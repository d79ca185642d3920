package keystorefile

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
)

// A Java keystore (JKS) is a big-endian stream: a magic number, the version, the
// number of entries, the entries, and a SHA-1 hash over the password, a fixed text
// and all before it. A private key is encrypted with a stream of SHA-1 hashes of the
// password. The format is what Java's own classes read; it has no specification.
const (
	jksMagic       = 0xfeedfeed
	jksVersion     = 2
	jksKey         = 1 // tag of an entry with a key
	jksCertificate = 2 // tag of an entry with a trusted certificate
	jksWhitener    = "Mighty Aphrodite"
	jksType        = "X.509"
)

// oidKeyProtector is the algorithm that encrypts keys in Java keystores.
var oidKeyProtector = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// jksEntry is one entry. Key is PKCS#8, not encrypted; nil in the entry of a trusted
// certificate, which has one certificate.
type jksEntry struct {
	alias string
	made  time.Time
	key   []byte
	certs [][]byte
}

// javaChars returns a text as Java's characters: two octets each, and two characters
// for those beyond the Basic Multilingual Plane.
func javaChars(text string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.BigEndian.AppendUint16(out, unit)
	}
	return out
}

// writeJKS encodes a keystore.
func writeJKS(entries []jksEntry, password string) ([]byte, error) {
	chars := javaChars(password)
	out := binary.BigEndian.AppendUint32(nil, jksMagic)
	out = binary.BigEndian.AppendUint32(out, jksVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(entries)))
	for _, entry := range entries {
		tag := uint32(jksCertificate)
		if entry.key != nil {
			tag = jksKey
		}
		out = binary.BigEndian.AppendUint32(out, tag)
		alias := javaUTF(strings.ToLower(entry.alias))
		if len(alias) > 1<<16-1 {
			return nil, fmt.Errorf("an alias of %d bytes is too long", len(alias))
		}
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(alias))), alias...)
		out = binary.BigEndian.AppendUint64(out, uint64(entry.made.UnixMilli()))
		if entry.key != nil {
			protected, err := protect(entry.key, chars)
			if err != nil {
				return nil, err
			}
			out = appendBytes(out, protected)
			out = binary.BigEndian.AppendUint32(out, uint32(len(entry.certs)))
		}
		for _, cert := range entry.certs {
			out = append(binary.BigEndian.AppendUint16(out, uint16(len(jksType))), jksType...)
			out = appendBytes(out, cert)
		}
	}
	return append(out, jksDigest(chars, out)...), nil
}

func appendBytes(out, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(data))), data...)
}

func jksDigest(chars, content []byte) []byte {
	return sha1Of(chars, []byte(jksWhitener), content)
}

func sha1Of(parts ...[]byte) []byte {
	hash := sha1.New()
	for _, part := range parts {
		hash.Write(part)
	}
	return hash.Sum(nil)
}

// javaUTF returns a text in the modified UTF-8 of Java's DataOutput.writeUTF: NUL
// has two octets, and each half of a surrogate pair three.
func javaUTF(text string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		switch {
		case unit != 0 && unit < 0x80:
			out = append(out, byte(unit))
		case unit < 0x800:
			out = append(out, 0xc0|byte(unit>>6), 0x80|byte(unit&0x3f))
		default:
			out = append(out, 0xe0|byte(unit>>12), 0x80|byte(unit>>6&0x3f), 0x80|byte(unit&0x3f))
		}
	}
	return out
}

// encryptedKey is an EncryptedPrivateKeyInfo (RFC 5208 section 6). Data contains the salt,
// the encrypted key, and a hash of the password and the key.
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

// protect encrypts a key. Its salt follows from the key and the password: another key
// never has the same one, and the result is always the same.
func protect(key, chars []byte) ([]byte, error) {
	mac := hmac.New(sha256.New, key)
	mac.Write(chars)
	salt := mac.Sum(nil)[:sha1.Size]
	data := append(salt, mask(key, chars, salt)...)
	return asn1.Marshal(encryptedKey{
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: oidKeyProtector, Parameters: asn1.NullRawValue},
		Data:      append(data, sha1Of(chars, key)...),
	})
}

// mask encrypts and decrypts.
func mask(data, chars, salt []byte) []byte {
	out := make([]byte, len(data))
	block := salt
	for i := range data {
		if i%sha1.Size == 0 {
			block = sha1Of(chars, block)
		}
		out[i] = data[i] ^ block[i%sha1.Size]
	}
	return out
}

var errJKS = errors.New("not a Java keystore, or the password is another one")

func unprotect(der, chars []byte) ([]byte, error) {
	var encrypted encryptedKey
	rest, err := asn1.Unmarshal(der, &encrypted)
	if err != nil || len(rest) > 0 || !encrypted.Algorithm.Algorithm.Equal(oidKeyProtector) || len(encrypted.Data) < 2*sha1.Size {
		return nil, errJKS
	}
	salt, data := encrypted.Data[:sha1.Size], encrypted.Data[sha1.Size:len(encrypted.Data)-sha1.Size]
	key := mask(data, chars, salt)
	if subtle.ConstantTimeCompare(sha1Of(chars, key), encrypted.Data[len(encrypted.Data)-sha1.Size:]) != 1 {
		return nil, errJKS
	}
	return key, nil
}

// readJKS decodes what writeJKS has written. Aliases stay encoded.
func readJKS(data []byte, password string) ([]jksEntry, error) {
	chars := javaChars(password)
	if len(data) < 12+sha1.Size {
		return nil, errJKS
	}
	content, digest := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	if subtle.ConstantTimeCompare(jksDigest(chars, content), digest) != 1 {
		return nil, errJKS
	}
	r := jksReader{rest: content}
	magic, version, count := r.number(4), r.number(4), r.number(4)
	if magic != jksMagic || version != jksVersion {
		return nil, errJKS
	}
	var entries []jksEntry
	for ; count > 0 && !r.failed; count-- {
		entry := jksEntry{}
		tag := r.number(4)
		entry.alias, entry.made = string(r.bytes(2)), time.UnixMilli(int64(r.number(8)))
		certs := uint64(1)
		if tag == jksKey {
			var err error
			if entry.key, err = unprotect(r.bytes(4), chars); err != nil {
				return nil, err
			}
			certs = r.number(4)
		}
		for ; certs > 0 && !r.failed; certs-- {
			r.bytes(2) // the type
			entry.certs = append(entry.certs, r.bytes(4))
		}
		entries = append(entries, entry)
	}
	if r.failed || len(r.rest) > 0 {
		return nil, errJKS
	}
	return entries, nil
}

// jksReader reads numbers and octets. It fails at the end of the data.
type jksReader struct {
	rest   []byte
	failed bool
}

func (r *jksReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// number reads an unsigned number of a size in octets.
func (r *jksReader) number(size uint64) uint64 {
	var n uint64
	for _, octet := range r.take(size) {
		n = n<<8 | uint64(octet)
	}
	return n
}

// bytes reads octets after their number, which has a size in octets.
func (r *jksReader) bytes(size uint64) []byte { return bytes.Clone(r.take(r.number(size))) }
