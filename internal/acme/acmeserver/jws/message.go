// Package jws parses and verifies the signed messages of ACME clients (RFC 8555
// section 6.2), more strictly than RFC 7515 demands: what is accepted has only one
// reading.
package jws

import (
	"net/http"
	"slices"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// MaxSize is the largest message in bytes.
const MaxSize = 64 << 10

// Options relax the rules for messages and keys.
type Options struct {
	// MoreAlgorithms permits RS384, RS512, PS256, PS384 and PS512.
	MoreAlgorithms bool
	// LargeRSA permits RSA keys of up to 8192 bits.
	LargeRSA bool
	// ShortECDSASignatures permits ECDSA signatures whose numbers lack their first
	// byte, a zero: some clients leave it out.
	ShortECDSASignatures bool
	// CertificateKey permits small RSA keys, and those of any quality: the owner
	// of a certificate may revoke it by a message that its key has signed, most of
	// all if the key is weak (RFC 8555 section 7.6). Keys that are larger than those of
	// certificates are refused.
	CertificateKey bool
}

// Signer selects the keys that may sign a message (RFC 8555 section 6.2).
type Signer int

// The signers of messages.
const (
	Anybody   Signer = iota // jwk or kid: revocations
	NewKey                  // jwk: new accounts, and the inner message of a key change
	OnAccount               // kid: everything else
)

// Unverified is a message whose signature was not verified yet. It identifies the key to
// verify it with, and exports nothing else.
type Unverified struct {
	// Key is the key in the message. It is nil if there is a KID.
	Key *Key
	// KID is the URL of the account whose key has signed. It is empty if there is a
	// Key.
	KID string

	algorithm *algorithm
	nonce     nonceMember
	url       string
	input     string // what was signed
	signature []byte
	payload   []byte
	options   Options
}

type nonceMember struct {
	text    string
	present bool
}

// Message is a message whose signature was verified.
type Message struct {
	// Key has verified the signature.
	Key *Key
	// KID is the URL of the account; it is empty if the message has the key.
	KID string
	// URL is the URL that the message was signed for.
	URL string
	// Payload is empty if the message asks for a resource (POST-as-GET, RFC 8555
	// section 6.3).
	Payload []byte

	nonce nonceMember
}

// Parse parses the body of a request that signer has to sign. The problem is the answer,
// apart from its headers.
func Parse(body []byte, signer Signer, options Options) (*Unverified, *rfc8555.Problem) {
	if len(body) > MaxSize {
		return nil, rfc8555.NewProblem(http.StatusRequestEntityTooLarge, rfc8555.ProblemMalformed, "the message is larger than %d bytes", MaxSize)
	}
	parts, problem := readParts(body)
	if problem != nil {
		return nil, problem
	}
	h, problem := parts.readHeader("alg", "url")
	if problem != nil {
		return nil, problem
	}
	u := &Unverified{input: parts.input, signature: parts.signature, payload: parts.payload, options: options}
	u.url, _ = h.text("url")
	if problem := u.readNonce(h); problem != nil {
		return nil, problem
	}
	if u.algorithm, problem = options.algorithm(h); problem != nil {
		return nil, problem
	}
	if problem := u.readKey(h, signer); problem != nil {
		return nil, problem
	}
	return u, nil
}

// parts are the three parts of a message (RFC 7515 section 7.2.2).
type parts struct {
	protected, payload, signature []byte
	input                         string
}

// readParts parses the flattened form of a message.
func readParts(body []byte) (parts, *rfc8555.Problem) {
	m, err := readObject(body)
	if err != nil {
		return parts{}, malformed("the message %v", err)
	}
	if m.has("signatures") != "" {
		return parts{}, malformed("the message has several signatures: it must be in the flattened form (RFC 8555 section 6.2)")
	}
	if m.has("header") != "" {
		return parts{}, malformed("the message has a header that is not signed (RFC 8555 section 6.2)")
	}
	var p parts
	for _, part := range []struct {
		name string
		data *[]byte
	}{{"protected", &p.protected}, {"payload", &p.payload}, {"signature", &p.signature}} {
		if *part.data, err = m.octets(part.name); err != nil {
			return parts{}, malformed("the message %v", err)
		}
	}
	protected, _ := m.text("protected")
	payload, _ := m.text("payload")
	p.input = protected + "." + payload
	return p, nil
}

// refusedMembers are header members that would change the meaning or the key of a
// signature.
var refusedMembers = []string{"crit", "b64", "x5c", "x5u", "jku"}

// readHeader parses the protected header. The members that are named must be there.
func (p parts) readHeader(texts ...string) (members, *rfc8555.Problem) {
	h, err := readObject(p.protected)
	if err != nil {
		return nil, malformed("the protected header %v", err)
	}
	if refused := h.has(refusedMembers...); refused != "" {
		return nil, malformed("the protected header has the member %q, which is not supported", refused)
	}
	for _, name := range texts {
		if _, err := h.text(name); err != nil {
			return nil, malformed("the protected header %v", err)
		}
	}
	return h, nil
}

func (u *Unverified) readNonce(h members) *rfc8555.Problem {
	if h.has("nonce") == "" {
		return nil
	}
	text, err := h.text("nonce")
	if err != nil {
		return malformed("the protected header %v", err)
	}
	u.nonce = nonceMember{text: text, present: true}
	return nil
}

// readKey reads what names the key: exactly one of jwk and kid.
func (u *Unverified) readKey(h members, signer Signer) *rfc8555.Problem {
	hasKey, hasKID := h.has("jwk") != "", h.has("kid") != ""
	switch {
	case hasKey == hasKID:
		return malformed("the protected header must have exactly one of jwk and kid (RFC 8555 section 6.2)")
	case hasKID && signer == NewKey:
		return malformed("the protected header must have the key as jwk, not a kid")
	case hasKey && signer == OnAccount:
		return malformed("the protected header must have the URL of the account as kid, not a jwk")
	}
	if hasKID {
		kid, err := h.text("kid")
		if err != nil {
			return malformed("the protected header %v", err)
		}
		if u.KID = kid; kid == "" {
			return malformed("the protected header has an empty kid")
		}
		return nil
	}
	if jwk := h["jwk"]; jwk[0] != '{' {
		return malformed("the protected header has a member %q that is not an object", "jwk")
	}
	key, problem := ParseKey(h["jwk"], u.options)
	if problem != nil {
		return problem
	}
	if key.algorithm != "" && key.algorithm != u.algorithm.name {
		return rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemBadPublicKey,
			"the public key is for the algorithm %s, and the message is signed with %s", rfc8555.Quote(key.algorithm), u.algorithm.name)
	}
	u.Key = key
	return nil
}

// CheckURL checks that a message was signed for the URL of the request (RFC 8555 section
// 6.4), or for a former URL of the server.
func (m *Message) CheckURL(url string, former ...string) *rfc8555.Problem {
	if m.URL == url || slices.Contains(former, m.URL) {
		return nil
	}
	return rfc8555.NewProblem(http.StatusForbidden, rfc8555.ProblemUnauthorized,
		"the message was signed for the URL %s, and was sent to %s", rfc8555.Quote(m.URL), url)
}

// Nonce returns the nonce, whose form was checked (RFC 8555 section 6.5.2). Whether
// it is good is another question.
func (m *Message) Nonce() (string, *rfc8555.Problem) {
	if !m.nonce.present {
		return "", rfc8555.NewProblem(http.StatusBadRequest, rfc8555.ProblemBadNonce, "the message has no nonce")
	}
	if _, err := DecodeBase64URL(m.nonce.text, false); err != nil || m.nonce.text == "" {
		return "", malformed("the nonce is not base64url without padding")
	}
	return m.nonce.text, nil
}

// IsPostAsGet reports whether the message only asks for a resource.
func (m *Message) IsPostAsGet() bool { return len(m.Payload) == 0 }

// Decode decodes the payload of a message that asks for more: see DecodePayload.
func (m *Message) Decode(into any) *rfc8555.Problem {
	if m.IsPostAsGet() {
		return malformed("the payload is empty, and must be a JSON object")
	}
	return DecodePayload(m.Payload, into)
}
