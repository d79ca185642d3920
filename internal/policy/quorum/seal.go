package quorum

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// sealVersion is the form of sealed records that this package writes and
	// reads.
	sealVersion = "v1"
	// sealDomain precedes what is signed, so that no other signature of the key is
	// valid for a record.
	sealDomain = "certplane.dev/approval\x00"
	// maxSealed is the size in bytes of the longest sealed record.
	maxSealed = 32 << 10
)

// ErrVersion is the error for sealed records of a version that this package does not
// read.
var ErrVersion = errors.New("sealed by another version of certplane")

var sealEncoding = base64.RawURLEncoding.Strict()

// KeyID returns the name of a key in sealed records: the first 8 bytes of the
// SHA-256 digest of the public key, in hexadecimal digits.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Seal returns a record as a sealed text, see SealText.
func Seal(key crypto.Signer, r Record) (string, error) { return SealText(key, sealDomain, r) }

// SealText returns a record of any type as
// v1.<key id>.<base64url JSON>.<base64url signature>, signed with Ed25519 (RFC
// 8032) over the domain, which tells types of records apart, and the text before
// the signature. The key's public key must be an ed25519.PublicKey.
func SealText(key crypto.Signer, domain string, record any) (string, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return "", fmt.Errorf("the key that seals approvals is a %T, not an Ed25519 key", key.Public())
	}
	data, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("encoding an approval: %w", err)
	}
	text := sealVersion + "." + KeyID(public) + "." + sealEncoding.EncodeToString(data)
	// Ed25519 needs no randomness.
	signature, err := key.Sign(nil, []byte(domain+text), crypto.Hash(0))
	if err != nil {
		return "", fmt.Errorf("sealing an approval: %w", err)
	}
	if text += "." + sealEncoding.EncodeToString(signature); len(text) > maxSealed {
		return "", fmt.Errorf("the record of the approval has %d bytes, more than %d", len(text), maxSealed)
	}
	return text, nil
}

// Open returns the record in a sealed text whose signature one of the keys
// verifies. The record is what the server has sealed; whether it is of the
// request that has it is another matter, see Votes.
func Open(keys []ed25519.PublicKey, text string) (Record, error) {
	return OpenText[Record](keys, sealDomain, text)
}

// OpenText is Open for records that SealText has sealed with a domain.
func OpenText[R any](keys []ed25519.PublicKey, domain, text string) (R, error) {
	var none R
	if len(text) > maxSealed {
		return none, fmt.Errorf("the sealed record has more than %d bytes", maxSealed)
	}
	version, rest, _ := strings.Cut(text, ".")
	if version != sealVersion {
		return none, ErrVersion
	}
	parts := strings.Split(rest, ".")
	if len(parts) != 3 {
		return none, errors.New("not a sealed record")
	}
	i := slices.IndexFunc(keys, func(key ed25519.PublicKey) bool { return KeyID(key) == parts[0] })
	if i < 0 {
		return none, fmt.Errorf("sealed with the unknown key %.16q", parts[0])
	}
	signature, err := sealEncoding.DecodeString(parts[2])
	if err != nil || !ed25519.Verify(keys[i], []byte(domain+text[:len(text)-len(parts[2])-1]), signature) {
		return none, errors.New("the seal does not verify")
	}
	data, err := sealEncoding.DecodeString(parts[1])
	if err != nil {
		return none, fmt.Errorf("decoding the sealed record: %w", err)
	}
	return decodeRecord[R](data)
}

// decodeRecord reads the JSON of a record. A field that this version does not
// know could restrict the approval: the record is then not read.
func decodeRecord[R any](data []byte) (R, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var r, none R
	if err := decoder.Decode(&r); err != nil {
		return none, fmt.Errorf("decoding the sealed record: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return none, errors.New("decoding the sealed record: something follows it")
	}
	return r, nil
}
