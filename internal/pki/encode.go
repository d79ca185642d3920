package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"io"
	"math/big"
)

// encode returns the certificate that template describes, issued by ca: signed
// with key, or with an empty signature if key is nil.
func encode(template, ca *x509.Certificate, key crypto.Signer) ([]byte, error) {
	recorder := &recorder{public: ca.PublicKey}
	if key == nil {
		key = recorder
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, template.PublicKey, key)
	if errors.Is(err, errRecorded) {
		return withoutSignature(recorder.message)
	}
	return der, err
}

// recorder is a key that does not sign, but records the message to be signed.
// The standard library encodes certificates only while signing them.
type recorder struct {
	public  crypto.PublicKey
	message []byte
}

var _ crypto.MessageSigner = (*recorder)(nil)

var errRecorded = errors.New("recorded instead of signed")

func (r *recorder) Public() crypto.PublicKey { return r.public }

// Sign gets a digest, which is not needed.
func (r *recorder) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("a recorder needs the message, not its digest")
}

func (r *recorder) SignMessage(_ io.Reader, message []byte, _ crypto.SignerOpts) ([]byte, error) {
	r.message = message
	return nil, errRecorded
}

// withoutSignature returns the certificate with this content and an empty
// signature. The content contains the algorithm too (RFC 5280 sections 4.1.1.2
// and 4.1.2.3).
func withoutSignature(content []byte) ([]byte, error) {
	var head struct {
		Version   int `asn1:"optional,explicit,default:0,tag:0"`
		Serial    *big.Int
		Algorithm asn1.RawValue
	}
	if _, err := asn1.Unmarshal(content, &head); err != nil {
		return nil, err
	}
	return asn1.Marshal(struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}{asn1.RawValue{FullBytes: content}, head.Algorithm, asn1.BitString{}})
}
