//go:build pkcs11

package pkcs11

import (
	"crypto"
	"testing"
)

// HSM is hsm, for tests that start a server, which imports this package.
type HSM struct{ *hsm }

// NewHSM makes a token of its own for a test.
func NewHSM(t testing.TB) HSM { return HSM{newHSM(t)} }

// Generate makes a key that cannot leave the token and returns its public half.
func (h HSM) Generate(t testing.TB, kind, label string) crypto.PublicKey {
	return h.generate(t, kind, label)
}

// URI names the keys of a label.
func (h HSM) URI(label string) string { return h.uri(label) }

// LoseSessions is what a token does that was away for a moment.
func (h HSM) LoseSessions(t testing.TB) { h.loseSessions(t) }
