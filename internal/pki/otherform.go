package pki

import (
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
)

// OtherForm returns a certificate with the other form of its ECDSA signature: (r, n-s) for
// (r, s), where n is the order of the issuer's curve. Both are valid (SEC 1 section 4.1.4 has
// no rule for s), so the holder of a certificate can change its fingerprint, but only to this
// one: package x509 accepts one encoding of everything else. ok is false for other algorithms,
// whose signatures have one form.
//
// The certificate does not name the curve, and its hash does not tell it. OtherForm takes the
// smallest curve whose order is above both r and s. That is wrong if both happen to be small:
// below 2^224 on P-256, for one in 2^63 certificates, and one in 2^255 on larger curves.
func OtherForm(cert *x509.Certificate) (der []byte, ok bool) {
	switch cert.SignatureAlgorithm {
	case x509.ECDSAWithSHA1, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512:
	default:
		return nil, false
	}
	signature, err := parse[struct{ R, S *big.Int }](cert.Signature)
	if err != nil || signature.R.Sign() <= 0 || signature.S.Sign() <= 0 {
		return nil, false
	}
	order := orderAbove(signature.R, signature.S)
	if order == nil {
		return nil, false
	}
	signature.S.Sub(order, signature.S)
	other, err := asn1.Marshal(signature)
	if err != nil {
		return nil, false
	}
	der, err = withSignature(cert.Raw, other)
	return der, err == nil
}

// OtherFingerprint is the Fingerprint of OtherForm, "" if there is no other form.
func OtherFingerprint(cert *x509.Certificate) string {
	der, ok := OtherForm(cert)
	if !ok {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// orderAbove returns the order of the smallest curve that can have made the numbers of a
// signature, nil if none can.
func orderAbove(r, s *big.Int) *big.Int {
	for _, curve := range []elliptic.Curve{elliptic.P224(), elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		if n := curve.Params().N; r.Cmp(n) < 0 && s.Cmp(n) < 0 {
			return n
		}
	}
	return nil
}
