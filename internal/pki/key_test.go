package pki_test

import (
	//lint:ignore SA1019 a key that is not supported is wanted
	"crypto/dsa"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestKeyTypes(t *testing.T) {
	for _, want := range pki.KeyTypes() {
		got, err := pki.ParseKeyType(string(want))
		if err != nil || got != want {
			t.Errorf("parsing %q: %q, %v", want, got, err)
		}
	}
	_, err := pki.ParseKeyType("dsa")
	const want = `unknown key type "dsa": use one of ecdsa-p256, ecdsa-p384, ecdsa-p521, ed25519, rsa2048, rsa3072, rsa4096`
	if text(err) != want {
		t.Errorf("error %q, want %q", text(err), want)
	}
}

func TestGenerateKey(t *testing.T) {
	tests := []struct {
		kind pki.KeyType
		want func(key any) bool
	}{
		{kind: pki.ECDSAP256, want: isCurve(elliptic.P256())},
		{kind: pki.ECDSAP384, want: isCurve(elliptic.P384())},
		{kind: pki.ECDSAP521, want: isCurve(elliptic.P521())},
		{kind: pki.Ed25519, want: func(key any) bool { _, ok := key.(ed25519.PrivateKey); return ok }},
		{kind: pki.RSA2048, want: isRSA(2048)},
		{kind: pki.RSA3072, want: isRSA(3072)},
		{kind: pki.RSA4096, want: isRSA(4096)},
	}
	for _, tc := range tests {
		t.Run(string(tc.kind), func(t *testing.T) {
			if testing.Short() && tc.kind == pki.RSA4096 {
				t.Skip("takes seconds")
			}
			if key := newKey(t, tc.kind); !tc.want(key) {
				t.Errorf("got a %T", key)
			}
		})
	}
	if _, err := pki.GenerateKey("dsa"); text(err) != "generating dsa key: unknown key type" {
		t.Errorf("error %q for an unknown type", text(err))
	}
}

func isCurve(curve elliptic.Curve) func(any) bool {
	return func(key any) bool {
		ec, ok := key.(*ecdsa.PrivateKey)
		return ok && ec.Curve == curve
	}
}

func isRSA(bits int) func(any) bool {
	return func(key any) bool {
		r, ok := key.(*rsa.PrivateKey)
		return ok && r.N.BitLen() == bits
	}
}

func TestCheckPublicKey(t *testing.T) {
	even := rsaKey(2048)
	even.N.SetBit(even.N, 0, 0)
	exponentOne := rsaKey(2048)
	exponentOne.E = 1
	tests := []struct {
		reason string
		key    any
		want   string
	}{
		{reason: "RSA at the minimum", key: rsaKey(2048)},
		{reason: "RSA below the minimum", key: rsaKey(2047), want: "RSA key of 2047 bits is smaller than the required 2048 bits"},
		{reason: "RSA at the maximum", key: rsaKey(16384)},
		{reason: "RSA above the maximum", key: rsaKey(16385), want: "RSA key of 16385 bits is larger than the supported 16384 bits"},
		{reason: "RSA with an even modulus", key: even, want: "even modulus"},
		{reason: "RSA that does nothing", key: exponentOne, want: "unusable exponent"},
		{reason: "Ed25519", key: ed25519.PublicKey{}},
		{reason: "curve", key: &ecdsa.PublicKey{Curve: elliptic.P521()}},
		{reason: "unknown curve", key: &ecdsa.PublicKey{Curve: &elliptic.CurveParams{Name: "secp256k1"}}, want: "elliptic curve secp256k1 is not supported"},
		{reason: "DSA", key: &dsa.PublicKey{}, want: "public key type *dsa.PublicKey is not supported"},
		{reason: "an algorithm that does not parse", key: nil, want: "public key algorithm is not supported"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := text(pki.CheckPublicKey(tc.key, 2048))
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}
