//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/pkcs11"
	"golang.org/x/sync/errgroup"
)

// signs makes a signature with a key, and verifies it.
func signs(key crypto.Signer) error {
	message := []byte("to be signed")
	digest := sha256.Sum256(message)
	if public, ok := key.Public().(ed25519.PublicKey); ok {
		signature, err := key.Sign(rand.Reader, message, crypto.Hash(0))
		if err == nil && !ed25519.Verify(public, message, signature) {
			err = errors.New("the signature is wrong")
		}
		return err
	}
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return err
	}
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature)
	case *ecdsa.PublicKey:
		if !ecdsa.VerifyASN1(public, digest[:], signature) {
			return errors.New("the signature is wrong")
		}
	}
	return nil
}

func TestEveryKindOfKeySigns(t *testing.T) {
	h := newHSM(t)
	for _, kind := range []string{"RSA", "P-256", "P-384", "P-521", "Ed25519"} {
		t.Run(kind, func(t *testing.T) {
			key := h.find(t, kind, h.generate(t, kind, kind))
			if err := signs(key); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHashes(t *testing.T) {
	h := newHSM(t)
	for _, kind := range []string{"RSA", "P-256"} {
		key := h.find(t, kind, h.generate(t, kind, kind))
		for _, hash := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
			digest := hash.New().Sum(nil)
			signature, err := key.Sign(rand.Reader, digest, hash)
			if err != nil {
				t.Errorf("%s with %v: %v", kind, hash, err)
				continue
			}
			switch public := key.Public().(type) {
			case *rsa.PublicKey:
				err = rsa.VerifyPKCS1v15(public, hash, digest, signature)
			case *ecdsa.PublicKey:
				if !ecdsa.VerifyASN1(public, digest, signature) {
					err = errors.New("the signature is wrong")
				}
			}
			if err != nil {
				t.Errorf("%s with %v: %v", kind, hash, err)
			}
		}
	}
}

// SoftHSM cuts long hashes itself; other tokens refuse them.
func TestLongHashesAreCut(t *testing.T) {
	k, err := kindOf(&ecdsa.PublicKey{Curve: elliptic.P256()})
	if err != nil {
		t.Fatal(err)
	}
	if input, err := k.input(make([]byte, 64), crypto.SHA512); err != nil || len(input) != 32 {
		t.Errorf("%d bytes, %v", len(input), err)
	}
}

func TestSignRefuses(t *testing.T) {
	h := newHSM(t)
	digest := make([]byte, 32)
	rsaKey, edKey := h.find(t, "r", h.generate(t, "RSA", "r")), h.find(t, "e", h.generate(t, "Ed25519", "e"))
	for reason, sign := range map[string]func() ([]byte, error){
		"RSA-PSS":           func() ([]byte, error) { return rsaKey.Sign(rand.Reader, digest, &rsa.PSSOptions{Hash: crypto.SHA256}) },
		"an old hash":       func() ([]byte, error) { return rsaKey.Sign(rand.Reader, digest[:20], crypto.SHA1) },
		"no hash":           func() ([]byte, error) { return rsaKey.Sign(rand.Reader, digest, crypto.Hash(0)) },
		"half a hash":       func() ([]byte, error) { return rsaKey.Sign(rand.Reader, digest[:16], crypto.SHA256) },
		"Ed25519 of a hash": func() ([]byte, error) { return edKey.Sign(rand.Reader, digest, crypto.SHA512) },
	} {
		if _, err := sign(); err == nil {
			t.Errorf("%s: no error", reason)
		}
	}
	if err := errors.Join(signs(rsaKey), signs(edKey)); err != nil {
		t.Errorf("after refusals: %v", err)
	}
}

// A key that wants the PIN for each signature, as those of smart cards do.
func TestAlwaysAuthenticate(t *testing.T) {
	h := newHSM(t)
	public := h.generate(t, "P-256", "careful", pkcs11.NewAttribute(pkcs11.CKA_ALWAYS_AUTHENTICATE, true))
	key := h.find(t, "careful", public)
	for range 3 {
		if err := signs(key); err != nil {
			t.Fatal(err)
		}
	}
	h.write(t, h.pin, "000000")
	for range 2 {
		if err := signs(key); err == nil {
			t.Error("signed without the PIN")
		}
	}
	h.write(t, h.pin, userPIN)
	if err := signs(key); err != nil {
		t.Errorf("with the right PIN again: %v", err)
	}
}

// TestFind: of keys with the same label, the one that belongs to the
// certificate signs, so that a CA's next key can be there beforehand.
func TestFind(t *testing.T) {
	h := newHSM(t)
	before := h.generate(t, "P-256", "issuing")
	other := h.generate(t, "P-384", "issuing")
	after := h.generate(t, "P-256", "issuing")
	elsewhere := h.generate(t, "P-256", "elsewhere")
	token := h.open(t, h.uri("issuing"))
	for _, public := range []crypto.PublicKey{before, other, after} {
		key, err := token.Find(t.Context(), public)
		if err != nil {
			t.Fatal(err)
		}
		if err := signs(key); err != nil {
			t.Error(err)
		}
	}
	byID := h.open(t, strings.Replace(h.uri("issuing"), "object=issuing", "id=%01", 1))
	if _, err := byID.Find(t.Context(), elsewhere); err != nil {
		t.Errorf("by its identifier: %v", err)
	}
	for _, tc := range []struct {
		reason string
		public crypto.PublicKey
		want   []string // in any order: a token has none
	}{
		{"a key of another label", elsewhere, []string{"trying 3 keys: ", "it does not belong to the CA certificate"}},
		{"another kind of key", h.generate(t, "RSA", "rsa"), []string{"no matching private key is visible (is the session logged in?) (of the CA certificate's kind, RSA)"}},
		{"no kind of key", "text", []string{"keys of type string are not supported on a token"}},
	} {
		_, err := token.Find(t.Context(), tc.public)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, want)
			}
		}
	}
	later := h.generate(t, "RSA", "issuing")
	if _, err := token.Find(t.Context(), later); err != nil {
		t.Errorf("a key that was made after the login: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	h := newHSM(t)
	h.addToken(t, "twin")
	h.addToken(t, "twin")
	no := filepath.Join(h.dir, "no.so")
	text := filepath.Join(h.dir, "text.so")
	h.write(t, text, "not a library")
	tests := []struct{ reason, uri, want string }{
		{"no URI", "pkcs11:", "names no key"},
		{"no module", strings.Replace(h.uri("a"), h.path, no, 1), "loading the PKCS#11 module: stat " + no},
		{"something else than a module", strings.Replace(h.uri("a"), h.path, text, 1), text + " is not a module"},
		{"no such token", strings.Replace(h.uri("a"), "test%20CA", "nosuch", 1), `no token matches; the tokens are ["test CA" "twin" "twin"`},
		{"no such slot", strings.Replace(h.uri("a"), "token=", "slot-id=1;token=", 1), "no token matches"},
		{"two tokens", strings.Replace(h.uri("a"), "test%20CA", "twin", 1), "2 tokens match: add serial or slot-id to the URI"},
		{"no PIN", strings.Replace(h.uri("a"), "&pin-source=file:"+h.pin, "", 1), "the token wants a PIN: write it into a file and add pin-source=file:PATH"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := Open(tc.uri)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if strings.Contains(err.Error(), userPIN) {
				t.Errorf("error shows the PIN: %v", err)
			}
		})
	}
}

// TestWrongPIN: each PIN is tried once, however often a signature is requested.
func TestWrongPIN(t *testing.T) {
	h := newHSM(t)
	public := h.generate(t, "P-256", "issuing")
	key := h.find(t, "issuing", public)
	h.write(t, h.pin, "12345678")
	h.loseSessions(t)
	for i, want := range []string{"CKR_PIN_INCORRECT", "the token has refused this PIN, which is not tried again", "the token has refused this PIN"} {
		err := signs(key)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("signature %d: error %v, want %s", i+1, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "12345678") {
			t.Errorf("error shows the PIN: %v", err)
		}
	}
	h.write(t, h.pin, userPIN)
	if err := signs(key); err != nil {
		t.Errorf("with the right PIN again: %v", err)
	}
}

func TestMayTry(t *testing.T) {
	for flags, want := range map[uint]string{
		0:                                 "",
		pkcs11.CKF_USER_PIN_COUNT_LOW:     "",
		pkcs11.CKF_USER_PIN_FINAL_TRY:     "locks itself after the next wrong PIN",
		pkcs11.CKF_USER_PIN_LOCKED:        "has locked its PIN",
		pkcs11.CKF_USER_PIN_LOCKED | 0x20: "has locked its PIN",
	} {
		err := mayTry(flags)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("flags %x: %v, want %q", flags, err, want)
		}
	}
}

func TestSessionsOf(t *testing.T) {
	for most, want := range map[uint]uint{0: 8, ^uint(0): 8, 1: 1, 2: 1, 5: 4, 8: 7, 9: 8} {
		if got := sessionsOf(most); got != want {
			t.Errorf("of %d: %d, want %d", most, got, want)
		}
	}
}

// loseSessions is what a token does that was away for a moment. It waits until
// no call of the tokens in use is in the module: SoftHSM frees a session even
// while another thread signs with it, and then the process crashes.
func (h *hsm) loseSessions(t testing.TB, inUse ...*Token) {
	t.Helper()
	for _, token := range inUse {
		token.mu.Lock()
		defer token.mu.Unlock()
	}
	slot, err := findSlot(h.module, &URI{path: map[string]string{"token": h.label}})
	h.do(t, err)
	h.do(t, h.module.CloseAllSessions(slot.id))
}

// TestTokenComesBack: signing goes on after whatever happened to the sessions.
func TestTokenComesBack(t *testing.T) {
	h := newHSM(t)
	key := h.find(t, "issuing", h.generate(t, "P-256", "issuing"))
	for reason, happens := range map[string]func(){
		"all sessions are gone": func() { h.loseSessions(t) },
		"somebody logged out": func() {
			h.logged(t, func(s pkcs11.SessionHandle) { h.do(t, h.module.Logout(s)) })
		},
		"the module was shut down": func() { h.do(t, h.module.Finalize()) },
		"and started again": func() {
			h.do(t, h.module.Finalize())
			h.do(t, h.module.Initialize())
		},
	} {
		happens()
		for range 2 {
			if err := signs(key); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		}
	}
}

// TestConcurrently: two tokens in one process are used by many at once, and
// lose their sessions meanwhile.
func TestConcurrently(t *testing.T) {
	h := newHSM(t)
	first := h.find(t, "first", h.generate(t, "P-256", "first"))
	second := h.find(t, "second", h.generate(t, "P-256", "second"))
	tokens := []*Token{first.(*key).token, second.(*key).token}
	var group errgroup.Group
	for worker := range 2 * maxSessions {
		key := []crypto.Signer{first, second}[worker%2]
		group.Go(func() error {
			for i := range 50 {
				if worker == 0 && i == 25 {
					h.loseSessions(t, tokens...)
				}
				if err := signs(key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	for _, token := range tokens {
		c := token.connection
		if len(c.idle) == 0 || len(c.idle) > maxSessions || len(c.places) != 0 {
			t.Errorf("%d sessions are open and %d in use, want at most %d and 0", len(c.idle), len(c.places), maxSessions)
		}
	}
}

func TestClose(t *testing.T) {
	h := newHSM(t)
	token := h.open(t, h.uri("issuing"))
	signer, err := token.Find(t.Context(), h.generate(t, "P-256", "issuing"))
	h.do(t, err)
	h.do(t, signs(signer))
	sessions := append([]pkcs11.SessionHandle{token.connection.login}, token.connection.idle...)
	h.do(t, token.Close())
	for _, session := range sessions {
		if _, err := h.module.GetSessionInfo(session); !errors.Is(err, pkcs11.Error(pkcs11.CKR_SESSION_HANDLE_INVALID)) {
			t.Errorf("a session is still open: %v", err)
		}
	}
	if err := signs(signer); err == nil || !strings.Contains(err.Error(), "the token has been closed") {
		t.Errorf("error %v", err)
	}
	h.do(t, token.Close())
}

// What the tests rely on: SoftHSM does not give the keys away.
func TestKeysStayOnTheToken(t *testing.T) {
	h := newHSM(t)
	public := h.generate(t, "P-256", "issuing")
	token := h.open(t, h.uri("issuing"))
	signer, err := token.Find(t.Context(), public)
	h.do(t, err)
	c := token.connection
	found, err := c.object(signer.(*key))
	h.do(t, err)
	err = c.session(func(s pkcs11.SessionHandle) error {
		_, err := h.module.GetAttributeValue(s, found.handle, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil)})
		return err
	})
	if !errors.Is(err, pkcs11.Error(pkcs11.CKR_ATTRIBUTE_SENSITIVE)) {
		t.Errorf("reading the private key: %v", err)
	}
}
