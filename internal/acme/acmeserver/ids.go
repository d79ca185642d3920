package acmeserver

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
)

// Names of accounts and orders appear in URLs and must not be guessable (RFC 8555 section
// 10.5): 26 characters of 5 random bits.
const (
	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	idLength   = 26
	tokenSize  = 32
)

// lower is base32 in lower case, as required for names of objects.
var lower = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

// random returns random bytes.
func random(n int) []byte {
	data := make([]byte, n)
	rand.Read(data) // it never fails
	return data
}

func newID() string { return lower.EncodeToString(random(idLength))[:idLength] }

// newToken returns what the tokens for the challenges of an order follow from (RFC 8555
// section 8.1).
func newToken() string { return base64.RawURLEncoding.EncodeToString(random(tokenSize)) }

// keyName returns the name of the AcmeAccountKey of a key.
func keyName(endpoint string, key *jws.Key) string {
	thumbprint := key.Thumbprint()
	return endpoint + "." + lower.EncodeToString(thumbprint[:])
}
