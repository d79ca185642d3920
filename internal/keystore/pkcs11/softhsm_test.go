//go:build pkcs11

package pkcs11

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/asn1"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/pkcs11"
)

const userPIN = "74108520"

// hsm is a SoftHSM with one token in a folder of the test's.
type hsm struct {
	path   string // of the module
	dir    string
	module *pkcs11.Ctx
	label  string
	pin    string // file
}

// modulePath finds SoftHSM where distributions put it, or skips the test.
func modulePath(t testing.TB) string {
	t.Helper()
	for _, path := range []string{
		os.Getenv("SOFTHSM2_MODULE"), "/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
		"/usr/lib64/softhsm/libsofthsm.so", "/usr/local/lib/softhsm/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so",
	} {
		if _, err := os.Stat(path); path != "" && err == nil {
			return path
		}
	}
	t.Skip("SoftHSM is not installed (Debian: apt-get install softhsm2), so nothing was signed on a token")
	return ""
}

// newHSM makes a token of its own for a test.
func newHSM(t testing.TB) *hsm {
	t.Helper()
	h := &hsm{path: modulePath(t), dir: t.TempDir(), label: "test CA"}
	h.pin = filepath.Join(h.dir, "pin")
	h.write(t, h.pin, userPIN+"\n")
	h.write(t, filepath.Join(h.dir, "softhsm2.conf"), "directories.tokendir = "+h.dir+"\nlog.level = ERROR\n")
	t.Setenv("SOFTHSM2_CONF", filepath.Join(h.dir, "softhsm2.conf"))
	if h.module = pkcs11.New(h.path); h.module == nil {
		t.Fatalf("loading %s", h.path)
	}
	h.do(t, h.module.Initialize())
	t.Cleanup(func() { h.do(t, h.module.Finalize()) })
	h.addToken(t, h.label)
	return h
}

func (h *hsm) do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *hsm) write(t testing.TB, path, content string) {
	t.Helper()
	h.do(t, os.WriteFile(path, []byte(content), 0o600))
}

// addToken makes a token in the slot that SoftHSM always keeps empty.
func (h *hsm) addToken(t testing.TB, label string) {
	t.Helper()
	slots, err := h.module.GetSlotList(true)
	h.do(t, err)
	h.do(t, h.module.InitToken(slots[len(slots)-1], userPIN, label))
	slots, err = h.module.GetSlotList(true)
	h.do(t, err)
	session, err := h.module.OpenSession(slots[len(slots)-2], pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	h.do(t, err)
	h.do(t, h.module.Login(session, pkcs11.CKU_SO, userPIN))
	h.do(t, h.module.InitPIN(session, userPIN))
	h.do(t, h.module.Logout(session))
	h.do(t, h.module.CloseSession(session))
}

// logged calls f with a session that may make keys, and ends the login.
func (h *hsm) logged(t testing.TB, f func(pkcs11.SessionHandle)) {
	t.Helper()
	slot, err := findSlot(h.module, &URI{path: map[string]string{"token": h.label}})
	h.do(t, err)
	session, err := h.module.OpenSession(slot.id, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	h.do(t, err)
	_ = h.module.Login(session, pkcs11.CKU_USER, userPIN) // the code under test may have
	f(session)
	h.do(t, h.module.CloseSession(session))
}

// generate makes a key pair that cannot leave the token.
func (h *hsm) generate(t testing.TB, kind, label string, more ...*pkcs11.Attribute) crypto.PublicKey {
	t.Helper()
	mechanism, public := generation(t, kind)
	private := append([]*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true),
		pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true),
		pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_SIGN, true),
		pkcs11.NewAttribute(pkcs11.CKA_LABEL, label),
		pkcs11.NewAttribute(pkcs11.CKA_ID, []byte{1}),
	}, more...)
	var key crypto.PublicKey
	h.logged(t, func(s pkcs11.SessionHandle) {
		handle, _, err := h.module.GenerateKeyPair(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(mechanism, nil)}, public, private)
		if err != nil {
			t.Fatalf("generating an %s key: %v", kind, err)
		}
		key = h.public(t, s, kind, handle)
	})
	return key
}

const ckmECEdwardsKeyPairGen = 0x1055

var curves = map[string]struct {
	oid   asn1.ObjectIdentifier
	curve elliptic.Curve
}{
	"P-256": {asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}, elliptic.P256()},
	"P-384": {asn1.ObjectIdentifier{1, 3, 132, 0, 34}, elliptic.P384()},
	"P-521": {asn1.ObjectIdentifier{1, 3, 132, 0, 35}, elliptic.P521()},
}

func generation(t testing.TB, kind string) (mechanism uint, public []*pkcs11.Attribute) {
	t.Helper()
	switch kind {
	case "RSA":
		return pkcs11.CKM_RSA_PKCS_KEY_PAIR_GEN, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_MODULUS_BITS, 2048), pkcs11.NewAttribute(pkcs11.CKA_PUBLIC_EXPONENT, []byte{1, 0, 1}),
		}
	case "Ed25519":
		name, err := asn1.MarshalWithParams("edwards25519", "printable")
		if err != nil {
			t.Fatal(err)
		}
		return ckmECEdwardsKeyPairGen, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, name)}
	}
	oid, err := asn1.Marshal(curves[kind].oid)
	if err != nil {
		t.Fatal(err)
	}
	return pkcs11.CKM_EC_KEY_PAIR_GEN, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_EC_PARAMS, oid)}
}

// public reads the public half of a new key pair.
func (h *hsm) public(t testing.TB, s pkcs11.SessionHandle, kind string, handle pkcs11.ObjectHandle) crypto.PublicKey {
	t.Helper()
	get := func(attribute uint) []byte {
		values, err := h.module.GetAttributeValue(s, handle, []*pkcs11.Attribute{pkcs11.NewAttribute(attribute, nil)})
		h.do(t, err)
		return values[0].Value
	}
	if kind == "RSA" {
		return &rsa.PublicKey{N: new(big.Int).SetBytes(get(pkcs11.CKA_MODULUS)), E: 65537}
	}
	var point []byte
	if _, err := asn1.Unmarshal(get(pkcs11.CKA_EC_POINT), &point); err != nil {
		t.Fatal(err)
	}
	if kind == "Ed25519" {
		return ed25519.PublicKey(point)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curves[kind].curve, point)
	h.do(t, err)
	return key
}

// uri names a key on the test's token.
func (h *hsm) uri(label string) string {
	return fmt.Sprintf("pkcs11:token=test%%20CA;object=%s?module-path=%s&pin-source=file:%s", label, h.path, h.pin)
}

func (h *hsm) open(t testing.TB, uri string) *Token {
	t.Helper()
	token, err := Open(uri)
	h.do(t, err)
	t.Cleanup(func() { _ = token.Close() }) // some tests take its sessions away
	return token
}

func (h *hsm) find(t testing.TB, label string, public crypto.PublicKey) crypto.Signer {
	t.Helper()
	key, err := h.open(t, h.uri(label)).Find(t.Context(), public)
	h.do(t, err)
	return key
}
