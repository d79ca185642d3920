package acme

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // ES384 and ES512
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// jwk is a public key as JSON (RFC 7517). Its fields are in the order that a
// thumbprint needs (RFC 7638).
type jwk struct {
	Crv string `json:"crv,omitempty"`
	E   string `json:"e,omitempty"`
	Kty string `json:"kty"`
	N   string `json:"n,omitempty"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
}

// jws is a signed message in the flattened form (RFC 7515 section 7.2.2).
type jws struct {
	Protected string `json:"protected"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

// header is the protected header of a message (RFC 8555 section 6.2).
type header struct {
	Alg   string `json:"alg"`
	JWK   *jwk   `json:"jwk,omitempty"`
	KID   string `json:"kid,omitempty"`
	Nonce string `json:"nonce,omitempty"`
	URL   string `json:"url"`
}

// jwsSigner signs messages with the key of an account.
type jwsSigner struct {
	key        crypto.Signer
	alg        string
	hash       crypto.Hash
	size       int // of each half of an ECDSA signature
	public     jwk
	thumbprint string
}

var errKeyType = errors.New("account keys must be RSA keys, or ECDSA keys on P-256, P-384 or P-521")

func newJWSSigner(key crypto.Signer) (*jwsSigner, error) {
	if key == nil {
		return nil, errKeyType
	}
	s := &jwsSigner{key: key}
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		s.alg, s.hash = "RS256", crypto.SHA256
		s.public = jwk{Kty: "RSA", N: encode(public.N.Bytes()), E: encode(big.NewInt(int64(public.E)).Bytes())}
	case *ecdsa.PublicKey:
		if err := s.setCurve(public); err != nil {
			return nil, err
		}
	default:
		return nil, errKeyType
	}
	canonical, err := json.Marshal(s.public)
	if err != nil {
		return nil, fmt.Errorf("encoding the public key of the account: %w", err)
	}
	sum := sha256.Sum256(canonical)
	s.thumbprint = encode(sum[:])
	return s, nil
}

func (s *jwsSigner) setCurve(public *ecdsa.PublicKey) error {
	name := public.Curve.Params().Name
	switch name {
	case "P-256":
		s.alg, s.hash, s.size = "ES256", crypto.SHA256, 32
	case "P-384":
		s.alg, s.hash, s.size = "ES384", crypto.SHA384, 48
	case "P-521":
		s.alg, s.hash, s.size = "ES512", crypto.SHA512, 66
	default:
		return errKeyType
	}
	point, err := public.Bytes() // 4, x, y
	if err != nil {
		return fmt.Errorf("encoding the public key of the account: %w", err)
	}
	s.public = jwk{Kty: "EC", Crv: name, X: encode(point[1 : 1+s.size]), Y: encode(point[1+s.size:])}
	return nil
}

// sign returns a signed message. A nil payload makes a POST-as-GET. If kid is empty, the
// message contains the public key.
func (s *jwsSigner) sign(payload any, url, kid, nonce string) (jws, error) {
	h := header{Alg: s.alg, KID: kid, Nonce: nonce, URL: url}
	if kid == "" {
		h.JWK = &s.public
	}
	return sealed(h, payload, func(input []byte) ([]byte, error) {
		digest := s.hash.New()
		digest.Write(input)
		// Signatures of RSA keys need no randomness; those of ECDSA keys are made
		// without any by RFC 6979.
		signature, err := s.key.Sign(nil, digest.Sum(nil), s.hash)
		if err != nil || s.size == 0 {
			return signature, err
		}
		return s.halves(signature)
	})
}

// halves returns an ECDSA signature in the form of RFC 7518 section 3.4.
func (s *jwsSigner) halves(der []byte) ([]byte, error) {
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		return nil, err
	}
	out := make([]byte, 2*s.size)
	parts.R.FillBytes(out[:s.size])
	parts.S.FillBytes(out[s.size:])
	return out, nil
}

// bindExternal returns the externalAccountBinding of a new account (RFC 8555
// section 7.3.4).
func (s *jwsSigner) bindExternal(external ExternalAccount, url string) (jws, error) {
	return sealed(header{Alg: "HS256", KID: external.KeyID, URL: url}, s.public, func(input []byte) ([]byte, error) {
		mac := hmac.New(sha256.New, external.Key)
		mac.Write(input)
		return mac.Sum(nil), nil
	})
}

func sealed(h header, payload any, sign func(input []byte) ([]byte, error)) (jws, error) {
	protected, err := json.Marshal(h)
	if err != nil {
		return jws{}, fmt.Errorf("encoding the header of a message: %w", err)
	}
	var body []byte
	if payload != nil {
		if body, err = json.Marshal(payload); err != nil {
			return jws{}, fmt.Errorf("encoding a message: %w", err)
		}
	}
	m := jws{Protected: encode(protected), Payload: encode(body)}
	signature, err := sign([]byte(m.Protected + "." + m.Payload))
	if err != nil {
		return jws{}, fmt.Errorf("signing a message: %w", err)
	}
	m.Signature = encode(signature)
	return m, nil
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// Thumbprint returns the thumbprint of the public key of an account (RFC 7638),
// which is in the answers to challenges (RFC 8555 section 8.1).
func Thumbprint(key crypto.Signer) (string, error) {
	signer, err := newJWSSigner(key)
	if err != nil {
		return "", err
	}
	return signer.thumbprint, nil
}
