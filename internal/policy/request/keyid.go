package request

import (
	"crypto"
	"crypto/x509"
	"encoding/hex"

	"github.com/certplane/certplane/internal/pki"
)

// AnnotationSubjectKeyID of a request for a CA certificate has the key identifier, in
// hexadecimal, of the certificate that the CA has had for the same key. Certificates
// that it has issued name it (RFC 5280 section 4.2.1.1), so that it belongs to the
// key, however it was derived.
const AnnotationSubjectKeyID = "certplane.dev/subject-key-id"

// maxKeyID is the longest key identifier that is taken, in bytes: those that are
// hashes have up to 64.
const maxKeyID = 64

// SubjectKeyID returns the key identifier in annotations; nil if there is no usable one.
func SubjectKeyID(annotations map[string]string) []byte {
	id, err := hex.DecodeString(annotations[AnnotationSubjectKeyID])
	if err != nil || len(id) == 0 || len(id) > maxKeyID {
		return nil
	}
	return id
}

// KeptKeyID returns the value of AnnotationSubjectKeyID for a key and the former
// certificates of a CA, the last one first; "" if it is for another key, or has the
// usual identifier.
func KeptKeyID(former []*x509.Certificate, key crypto.PublicKey) string {
	if len(former) == 0 || !former[0].IsCA || !pki.SameKey(former[0].PublicKey, key) {
		return ""
	}
	id := former[0].SubjectKeyId
	if usual, err := pki.KeyID(key); err != nil || len(id) == 0 || len(id) > maxKeyID || string(usual) == string(id) {
		return ""
	}
	return hex.EncodeToString(id)
}
