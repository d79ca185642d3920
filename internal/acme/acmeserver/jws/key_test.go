package jws_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/apitest/jwstest"
	"github.com/certplane/certplane/internal/pki"
)

func newECKey(t testing.TB) testKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return testKey{jwstest.Key{Signer: key, Alg: "ES256"}}
}

// changed returns a JWK with other members, as in testKey.header.
func changed(t *testing.T, jwk string, changes ...string) string {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(jwk), &m); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, ":")
		if m[name] = json.RawMessage(value); value == "" {
			delete(m, name)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func quoted(data []byte) string { return `"` + base64.RawURLEncoding.EncodeToString(data) + `"` }

func member(t *testing.T, jwk, name string) []byte {
	t.Helper()
	m := map[string]string{}
	if err := json.Unmarshal([]byte(jwk), &m); err != nil {
		t.Fatal(err)
	}
	data, err := base64.RawURLEncoding.DecodeString(m[name])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Keys that are refused in a message, and by ParseKey.
func TestHostileKeys(t *testing.T) {
	ec, ed, rs := keys()["ES256"].JWK(), keys()["EdDSA"].JWK(), keys()["RS256"].JWK()
	x, y := member(t, ec, "x"), member(t, ec, "y")
	p := elliptic.P256().Params().P
	n := new(big.Int).SetBytes(member(t, rs, "n"))
	forms := map[string]string{
		"nothing":                    "{}",
		"no type":                    changed(t, ec, "kty:"),
		"type null":                  changed(t, ec, "kty:null"),
		"type in lower case":         changed(t, ec, `kty:"ec"`),
		"another type":               changed(t, ec, `kty:"RSA"`),
		"an unknown type":            changed(t, ec, `kty:"AKP"`),
		"a symmetric key":            `{"kty":"oct","k":"AAAA"}`,
		"a symmetric type":           `{"kty":"oct"}`,
		"no curve":                   changed(t, ec, "crv:"),
		"another curve":              changed(t, ec, `crv:"P-384"`),
		"P-224":                      changed(t, ec, `crv:"P-224"`),
		"secp256k1":                  changed(t, ec, `crv:"secp256k1"`),
		"a curve in lower case":      changed(t, ec, `crv:"p-256"`),
		"a curve of the other type":  changed(t, ec, `crv:"Ed25519"`),
		"no x":                       changed(t, ec, "x:"),
		"no y":                       changed(t, ec, "y:"),
		"x null":                     changed(t, ec, "x:null"),
		"x empty":                    changed(t, ec, `x:""`),
		"x too short":                changed(t, ec, "x:"+quoted(x[1:])),
		"x too long":                 changed(t, ec, "x:"+quoted(append([]byte{0}, x...))),
		"x padded":                   changed(t, ec, "x:"+quoted(x)[:44]+`="`),
		"x with a stray bit":         changed(t, ec, "x:"+quoted(x)[:43]+`B"`),
		"y with a line break":        changed(t, ec, "y:"+quoted(y)[:44]+`\n"`),
		"not on the curve":           changed(t, ec, "y:"+quoted(jwstest.Flipped(y, 31))),
		"zero":                       changed(t, ec, "x:"+quoted(make([]byte, 32)), "y:"+quoted(make([]byte, 32))),
		"x larger than the prime":    changed(t, ec, "x:"+quoted(p.Bytes())),
		"Ed25519 as a point of EC":   changed(t, ed, `kty:"EC"`),
		"X25519":                     changed(t, ed, `crv:"X25519"`),
		"Ed448":                      changed(t, ed, `crv:"Ed448"`),
		"Ed25519 too short":          changed(t, ed, "x:"+quoted(make([]byte, 31))),
		"Ed25519 too long":           changed(t, ed, "x:"+quoted(make([]byte, 33))),
		"Ed25519 of order 4":         changed(t, ed, "x:"+quoted(make([]byte, 32))),
		"Ed25519 of order 1":         changed(t, ed, "x:"+quoted(append([]byte{1}, make([]byte, 31)...))),
		"no modulus":                 changed(t, rs, "n:"),
		"no exponent":                changed(t, rs, "e:"),
		"modulus empty":              changed(t, rs, `n:""`),
		"modulus zero":               changed(t, rs, `n:"AA"`),
		"modulus with a zero byte":   changed(t, rs, "n:"+quoted(append([]byte{0}, n.Bytes()...))),
		"modulus even":               changed(t, rs, "n:"+quoted(new(big.Int).SetBit(n, 0, 0).Bytes())),
		"modulus of 2047 bits":       changed(t, rs, "n:"+quoted(new(big.Int).SetBit(n, 2047, 0).Bytes())),
		"modulus divisible by 3":     changed(t, rs, "n:"+quoted(multiple(3, 2048).Bytes())),
		"exponent empty":             changed(t, rs, `e:""`),
		"exponent 1":                 changed(t, rs, "e:"+quoted([]byte{1})),
		"exponent 3":                 changed(t, rs, "e:"+quoted([]byte{3})),
		"exponent 65536":             changed(t, rs, "e:"+quoted([]byte{1, 0, 0})),
		"exponent 65539":             changed(t, rs, "e:"+quoted([]byte{1, 0, 3})),
		"exponent with a zero byte":  changed(t, rs, "e:"+quoted([]byte{0, 1, 0, 1})),
		"exponent of 2^32 + 65537":   changed(t, rs, "e:"+quoted([]byte{1, 0, 1, 0, 1})),
		"exponent as a number":       changed(t, rs, "e:65537"),
		"huge exponent":              changed(t, rs, "e:"+quoted(n.Bytes())),
		"huge modulus":               changed(t, rs, "n:"+quoted([]byte(strings.Repeat("\x81", 30000)))),
		"for encryption":             changed(t, ec, `use:"enc"`),
		"use in upper case":          changed(t, ec, `use:"SIG"`),
		"use a number":               changed(t, ec, "use:1"),
		"use null":                   changed(t, ec, "use:null"),
		"operations without verify":  changed(t, ec, `key_ops:["sign"]`),
		"no operations":              changed(t, ec, "key_ops:[]"),
		"operations as a text":       changed(t, ec, `key_ops:"verify"`),
		"algorithm a number":         changed(t, ec, "alg:1"),
		"an array in the place of x": changed(t, ec, `x:["AA"]`),
	}
	for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"} {
		forms["private member "+private] = changed(t, ec, private+`:"AAAA"`)
		forms["private member "+private+" null"] = changed(t, rs, private+":null")
	}
	for bits := range map[int]bool{1024: true, 2040: true, 2049: true, 2052: true, 4104: true, 8192: true, 16392: true} {
		forms[fmt.Sprintf("RSA of %d bits", bits)] = changed(t, rs, "n:"+quoted(new(big.Int).SetBit(big.NewInt(0x1234567), bits-1, 1).Bytes()))
	}
	for reason, form := range forms {
		if _, problem := jws.ParseKey([]byte(form), jws.Options{}); kind(problem) != "badPublicKey" || problem.Status != 400 {
			t.Errorf("%s: %v", reason, problem)
		}
		for _, alg := range []string{"ES256", "RS256", "EdDSA"} {
			key := keys()[alg]
			refused(t, reason, key.Message(key.header("kid:", "jwk:"+form), "{}").Body(), nil, jws.Options{}, "badPublicKey")
		}
	}
	for reason, form := range map[string]string{
		"a member twice": strings.Replace(ec, "{", `{"kty":"EC",`, 1), "an array": "[]", "nothing": "", "deep": strings.Repeat("[", 20) + strings.Repeat("]", 20),
	} {
		if _, problem := jws.ParseKey([]byte(form), jws.Options{}); kind(problem) != "badPublicKey" {
			t.Errorf("%s: %v", reason, problem)
		}
	}
	key := keys()["RS256"]
	refused(t, "for another algorithm", key.Message(key.header("kid:", "jwk:"+changed(t, rs, `alg:"PS256"`)), "{}").Body(), nil, everything, "badPublicKey")
}

// multiple returns an odd multiple of a number that has a size.
func multiple(of int64, bits int) *big.Int {
	n := new(big.Int).SetBit(new(big.Int), bits-1, 1)
	n.Add(n, big.NewInt(0x765))
	for new(big.Int).Mod(n, big.NewInt(of)).Sign() != 0 || n.Bit(0) == 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// Every spelling of a key has the same thumbprint and the same JWK, that of the
// key itself.
func TestKey(t *testing.T) {
	for alg, key := range keys() {
		want := key.key()
		canonical := map[string]string{}
		if err := json.Unmarshal(want.JWK(), &canonical); err != nil {
			t.Fatal(err)
		}
		ordered, err := json.Marshal(canonical) // by name, as RFC 7638 demands
		if err != nil || sha256.Sum256(ordered) != want.Thumbprint() || jwstest.Base64(string(thumb(want))) != want.ThumbprintText() {
			t.Errorf("%s: %s has the thumbprint %s, %v", alg, ordered, want.ThumbprintText(), err)
		}
		for _, spelling := range []string{string(want.JWK()), " " + changed(t, key.JWK(), `kid:"1"`, `use:"sig"`, `key_ops:["verify","sign"]`, `alg:"`+alg+`"`, `X:1`, `x5c:["AAAA"]`)} {
			got, problem := jws.ParseKey([]byte(spelling), jws.Options{})
			if problem != nil || !got.Equal(want) || string(got.JWK()) != string(want.JWK()) || got.Thumbprint() != want.Thumbprint() {
				t.Errorf("%s: %s: %v", alg, spelling, problem)
			}
			stored, err := jws.StoredKey([]byte(spelling))
			if err != nil || !stored.Equal(want) {
				t.Errorf("%s: %s, stored: %v", alg, spelling, err)
			}
		}
		if other := newECKey(t).key(); other.Equal(want) {
			t.Errorf("%s: another key is equal", alg)
		}
		want.JWK()[0] = 'x'
		if want.JWK()[0] != '{' {
			t.Errorf("%s: the JWK was changed", alg)
		}
	}
}

func thumb(key *jws.Key) []byte {
	sum := key.Thumbprint()
	return sum[:]
}

// The example of RFC 7638 section 3.1, and that of RFC 8037 appendix A.3.
func TestThumbprint(t *testing.T) {
	for jwk, want := range map[string]string{
		`{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`: "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs",
		`{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`: "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k",
	} {
		key, problem := jws.ParseKey([]byte(jwk), jws.Options{})
		if problem != nil || key.ThumbprintText() != want {
			t.Errorf("%v, want %s", problem, want)
		}
	}
}

func TestKeyOf(t *testing.T) {
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaOf := func(bits int) *rsa.PublicKey {
		n := new(big.Int).SetBit(new(big.Int), bits-1, 1)
		for n.Add(n, big.NewInt(0x76543)); ; n.Add(n, big.NewInt(2)) {
			key := &rsa.PublicKey{N: new(big.Int).Set(n), E: 65537}
			if pki.CheckWeakKey(key) == nil {
				return key
			}
		}
	}
	exponent3 := rsaOf(2048)
	exponent3.E = 3
	large := rsaOf(4096)
	large.E = 1<<31 - 1
	for _, tc := range []struct {
		reason                     string
		key                        crypto.PublicKey
		usual, large, certificates bool
	}{
		{"P-256", keys()["ES256"].Public(), true, true, true},
		{"Ed25519", keys()["EdDSA"].Public(), true, true, true},
		{"Ed25519 of order 1", ed25519.PublicKey(append([]byte{1}, make([]byte, 31)...)), false, false, false},
		{"P-224", p224.Public(), false, false, false},
		{"nothing", nil, false, false, false},
		{"another type", "key", false, false, false},
		{"512 bits", rsaOf(512), false, false, false},
		{"1024 bits", rsaOf(1024), false, false, true},
		{"2048 bits", rsaOf(2048), true, true, true},
		{"2052 bits", rsaOf(2052), false, false, true},
		{"4096 bits", rsaOf(4096), true, true, true},
		{"8192 bits", rsaOf(8192), false, true, false},
		{"16384 bits", rsaOf(16384), false, false, false},
		{"16392 bits", rsaOf(16392), false, false, false},
		{"exponent 3", exponent3, false, false, true},
		{"a large exponent", large, false, false, false},
		{"a factor of 3", &rsa.PublicKey{N: multiple(3, 2048), E: 65537}, false, false, true},
	} {
		for options, want := range maps.All(map[jws.Options]bool{{}: tc.usual, {LargeRSA: true}: tc.large, {CertificateKey: true}: tc.certificates}) {
			key, problem := jws.KeyOf(tc.key, options)
			if (problem == nil) != want || problem != nil && kind(problem) != "badPublicKey" || (key == nil) == (problem == nil) {
				t.Errorf("%s, %+v: %v", tc.reason, options, problem)
			}
			if key == nil {
				continue
			}
			if parsed, problem := jws.ParseKey(key.JWK(), options); problem != nil || !parsed.Equal(key) {
				t.Errorf("%s, %+v: written and parsed: %v", tc.reason, options, problem)
			}
		}
	}
}

// A certificate with a key that no account may have can be revoked by it.
func TestRevocationByWeakKey(t *testing.T) {
	for _, bits := range []int{1024, 2056} {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		key := testKey{jwstest.Key{Signer: private, Alg: "RS256"}}
		body := key.Message(key.header("kid:", "jwk:$JWK"), "{}").Body()
		if got := outcome(body, nil, jws.Options{CertificateKey: true}); got != "" {
			t.Errorf("%d bits: %s", bits, got)
		}
		if got := outcome(body, nil, jws.Options{}); bits == 1024 && got != "badPublicKey" {
			t.Errorf("%d bits, for an account: %s", bits, got)
		}
	}
}
