package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Purposes of sealing: a text sealed for one purpose cannot be opened for another.
const (
	forSession = "session"
	// forCertificate is a session whose credential is a client certificate.
	forCertificate = "session of a client certificate"
	forOIDC        = "openid connect"
)

// Sealer encrypts the data that browsers store for the console, which stores none itself:
// any process with the same secret can open it. It is safe for concurrent use.
type Sealer struct {
	aead cipher.AEAD
	now  func() time.Time
}

// NewSealer returns a Sealer whose key is derived from a secret of the server.
func NewSealer(secret []byte, now func() time.Time) (*Sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "certplane console v1", 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of the console: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead, now}, err
}

// sealed is the encrypted content.
type sealed struct {
	Text  string    `json:"t"`
	Until time.Time `json:"u"`
}

var (
	errSealed  = errors.New("it was not sealed by this server, or has expired")
	errTooLong = fmt.Errorf("the token is too long: a browser stores %d bytes. Run 'certplane console' on your machine instead", maxCookie)
)

// Seal encrypts a text, which the server can open until lifetime has passed.
func (s *Sealer) Seal(purpose, text string, lifetime time.Duration) (string, error) {
	plain, err := json.Marshal(sealed{text, s.now().Add(lifetime)})
	if err != nil {
		return "", err
	}
	out := base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose)))
	if len(out) > maxCookie {
		return "", errTooLong
	}
	return out, nil
}

// Open returns the data that was sealed for a purpose.
func (s *Sealer) Open(purpose, text string) (string, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", errSealed
	}
	plain, err := s.aead.Open(nil, nil, data, []byte(purpose))
	if err != nil {
		return "", errSealed
	}
	var in sealed
	if json.Unmarshal(plain, &in) != nil || !s.now().Before(in.Until) {
		return "", errSealed
	}
	return in.Text, nil
}
