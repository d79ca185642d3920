package jws

import (
	"crypto"
	"crypto/hmac"
	"net/http"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Binding is the external account binding of a new account (RFC 8555 section 7.3.4),
// not yet verified.
type Binding struct {
	// KID names the key that the server has given to the owner of the external
	// account.
	KID string

	hash      crypto.Hash
	url       string
	input     string
	signature []byte
	payload   []byte
}

// bindingHashes are the algorithms of bindings.
var bindingHashes = map[string]crypto.Hash{"HS256": crypto.SHA256, "HS384": crypto.SHA384, "HS512": crypto.SHA512}

// ParseBinding parses the member externalAccountBinding of a payload. Its protected
// header has exactly alg, kid and url.
func ParseBinding(data []byte) (*Binding, *rfc8555.Problem) {
	parts, problem := readParts(data)
	if problem != nil {
		return nil, inside("the external account binding", problem)
	}
	h, problem := parts.readHeader("alg", "kid", "url")
	if problem != nil {
		return nil, inside("the external account binding", problem)
	}
	if len(h) != 3 {
		return nil, malformed("the external account binding: the protected header has other members than alg, kid and url (RFC 8555 section 7.3.4)")
	}
	b := &Binding{input: parts.input, signature: parts.signature, payload: parts.payload}
	b.KID, _ = h.text("kid")
	b.url, _ = h.text("url")
	name, _ := h.text("alg")
	hash, ok := bindingHashes[name]
	if !ok {
		problem := rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemBadSignatureAlgorithm,
			"the external account binding: the algorithm %s is not accepted", rfc8555.Quote(name))
		problem.Algorithms = []string{"HS256", "HS384", "HS512"}
		return nil, problem
	}
	b.hash = hash
	return b, nil
}

// BindingRefused is the one answer for all reasons why a key may not bind an account, so
// that clients cannot find out which keys exist.
func BindingRefused() *rfc8555.Problem {
	return rfc8555.NewProblem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the external account binding is not valid")
}

// noKey takes the place of a key that does not exist.
var noKey = make([]byte, 32)

// Verify verifies a binding to the key of the outer message, which was signed for url. mac
// is the secret key that KID names; it is nil if no usable key exists: the answer is then
// the same as for a wrong MAC, after the same time.
func (b *Binding) Verify(mac []byte, url string, key *Key) *rfc8555.Problem {
	if b.url != url {
		return malformed("the external account binding: its url differs from the url of the outer message")
	}
	bound, err := parseKey(b.payload)
	if err != nil {
		return malformed("the external account binding: the payload must be the key of the account: it %v", err)
	}
	if !bound.Equal(key) {
		return malformed("the external account binding: the payload is not the key that has signed the outer message")
	}
	known := len(mac) > 0
	if !known {
		mac = noKey
	}
	sum := hmac.New(b.hash.New, mac)
	sum.Write([]byte(b.input))
	if !hmac.Equal(sum.Sum(nil), b.signature) || !known {
		return BindingRefused()
	}
	return nil
}

// inside adds to a problem the part of the message that it is in.
func inside(what string, problem *rfc8555.Problem) *rfc8555.Problem {
	problem.Detail = what + ": " + problem.Detail
	return problem
}
