package acmeserver

import (
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/certplane/certplane/internal/acmeserver/jws"
)

// Names of accounts and orders are in URLs, and nobody can guess them (RFC 8555
// section 10.5): 26 characters of 5 random bits.
const (
	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	idLength   = 26
	tokenSize  = 32
)

// lower is base32 in lower case, as names of objects have to be.
var lower = base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding)

// random returns random bytes.
func (s *Server) random(n int) []byte {
	data := make([]byte, n)
	if _, err := io.ReadFull(s.Rand, data); err != nil {
		panic(fmt.Sprintf("reading random bytes: %v", err))
	}
	return data
}

func (s *Server) newID() string { return lower.EncodeToString(s.random(idLength))[:idLength] }

// newToken returns a token for a challenge (RFC 8555 section 8.1).
func (s *Server) newToken() string { return base64.RawURLEncoding.EncodeToString(s.random(tokenSize)) }

// keyName returns the name of the AcmeAccountKey of a key.
func keyName(endpoint string, key *jws.Key) string {
	thumbprint := key.Thumbprint()
	return endpoint + "." + lower.EncodeToString(thumbprint[:])
}
