package jws_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acmeserver/jws"
)

// refused checks that a message is refused with a type of problems.
func refused(t *testing.T, reason, body string, account *jws.Key, options jws.Options, want string) {
	t.Helper()
	_, problem := read(body, account, options)
	if got := kind(problem); got != want || want == "" {
		t.Errorf("%s: %q, want %q: %.300s", reason, got, want, body)
		return
	}
	checkAnswer(t, reason, problem)
}

const bodyGood = `{"protected":"$P","payload":"$L","signature":"$S"}`

// Forms of the body. $P, $L and $S are good parts.
func TestHostileBodies(t *testing.T) {
	m := keys()["ES256"].message(keys()["ES256"].header(), `{"a":1}`)
	account := keys()["ES256"].key()
	if got := outcome(m.in(bodyGood), account, jws.Options{}); got != "" {
		t.Fatal(got)
	}
	for reason, body := range map[string]string{
		"nothing":                      "",
		"spaces":                       " \n",
		"null":                         "null",
		"a number":                     "1",
		"a text":                       `"$P.$L.$S"`,
		"true":                         "true",
		"an empty object":              "{}",
		"an array":                     "[" + bodyGood + "]",
		"the compact form":             "$P.$L.$S",
		"two messages":                 bodyGood + bodyGood,
		"two messages in lines":        bodyGood + "\n" + bodyGood,
		"text after the message":       bodyGood + "x",
		"a brace after the message":    bodyGood + "}",
		"NUL after the message":        bodyGood + "\x00",
		"a byte order mark":            "\ufeff" + bodyGood,
		"a comma at the end":           `{"protected":"$P","payload":"$L","signature":"$S",}`,
		"a comment":                    `{"protected":"$P","payload":"$L",/* */"signature":"$S"}`,
		"names without quotes":         `{protected:"$P",payload:"$L",signature:"$S"}`,
		"single quotes":                `{'protected':'$P','payload':'$L','signature':'$S'}`,
		"not closed":                   `{"protected":"$P","payload":"$L","signature":"$S"`,
		"a form":                       "protected=$P&payload=$L&signature=$S",
		"no protected":                 `{"payload":"$L","signature":"$S"}`,
		"no payload":                   `{"protected":"$P","signature":"$S"}`,
		"no signature":                 `{"protected":"$P","payload":"$L"}`,
		"protected null":               `{"protected":null,"payload":"$L","signature":"$S"}`,
		"payload null":                 `{"protected":"$P","payload":null,"signature":"$S"}`,
		"signature null":               `{"protected":"$P","payload":"$L","signature":null}`,
		"protected an object":          `{"protected":{},"payload":"$L","signature":"$S"}`,
		"payload an object":            `{"protected":"$P","payload":{"a":1},"signature":"$S"}`,
		"payload a number":             `{"protected":"$P","payload":0,"signature":"$S"}`,
		"signature an array":           `{"protected":"$P","payload":"$L","signature":["$S"]}`,
		"protected twice":              `{"protected":"$P","payload":"$L","signature":"$S","protected":"$P"}`,
		"payload twice":                `{"payload":"","protected":"$P","payload":"$L","signature":"$S"}`,
		"signature twice":              `{"protected":"$P","payload":"$L","signature":"","signature":"$S"}`,
		"payload twice, once escaped":  `{"protected":"$P","p\u0061yload":"","payload":"$L","signature":"$S"}`,
		"another member twice":         `{"protected":"$P","payload":"$L","signature":"$S","a":1,"a":1}`,
		"a member twice, deeper":       `{"protected":"$P","payload":"$L","signature":"$S","a":[{"b":{"c":1,"c":2}}]}`,
		"only Protected":               `{"Protected":"$P","payload":"$L","signature":"$S"}`,
		"only PAYLOAD":                 `{"protected":"$P","PAYLOAD":"$L","signature":"$S"}`,
		"only ſignature (long s)":      `{"protected":"$P","payload":"$L","ſignature":"$S"}`,
		"an unprotected header":        `{"protected":"$P","header":{"alg":"none"},"payload":"$L","signature":"$S"}`,
		"an unprotected header, empty": `{"protected":"$P","header":{},"payload":"$L","signature":"$S"}`,
		"an unprotected header, null":  `{"protected":"$P","header":null,"payload":"$L","signature":"$S"}`,
		"the general form":             `{"payload":"$L","signatures":[{"protected":"$P","signature":"$S"}]}`,
		"both forms":                   `{"protected":"$P","payload":"$L","signature":"$S","signatures":[{"protected":"$P","signature":"$S"}]}`,
		"signatures empty":             `{"protected":"$P","payload":"$L","signature":"$S","signatures":[]}`,
		"signatures null":              `{"protected":"$P","payload":"$L","signature":"$S","signatures":null}`,
		"padding of protected":         `{"protected":"$P=","payload":"$L","signature":"$S"}`,
		"padding of payload":           `{"protected":"$P","payload":"$L==","signature":"$S"}`,
		"padding of signature":         `{"protected":"$P","payload":"$L","signature":"$S=="}`,
		"a line break in protected":    `{"protected":"\n$P","payload":"$L","signature":"$S"}`,
		"a line break in payload":      `{"protected":"$P","payload":"$L\n","signature":"$S"}`,
		"a line break in signature":    `{"protected":"$P","payload":"$L","signature":"$S\r\n"}`,
		"a space in payload":           `{"protected":"$P","payload":" $L","signature":"$S"}`,
		"NUL in payload":               `{"protected":"$P","payload":"$L\u0000","signature":"$S"}`,
		"an escape of a URL":           `{"protected":"$P","payload":"%41","signature":"$S"}`,
		"standard base64":              `{"protected":"$P","payload":"+/+/","signature":"$S"}`,
		"a stray bit in payload":       `{"protected":"$P","payload":"$Lh","signature":"$S"}`,
		"one character of base64":      `{"protected":"$P","payload":"A","signature":"$S"}`,
		"other letters":                `{"protected":"$P","payload":"ＡＡＡＡ","signature":"$S"}`,
		"not UTF-8":                    `{"protected":"$P","payload":"$L","signature":"$S","a":"` + "\xff" + `"}`,
		"overlong UTF-8":               `{"protected":"$P","payload":"$L","signature":"$S","a":"` + "\xc0\x80" + `"}`,
		"a line break in a text":       "{\"protected\":\"$P\",\"payload\":\"$L\",\"signature\":\"$S\",\"a\":\"\n\"}",
		"a number that is none":        `{"protected":"$P","payload":"$L","signature":"$S","a":NaN}`,
		"17 levels":                    `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + `}`,
		"17 levels of objects":         `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat(`{"a":`, 16) + "1" + strings.Repeat("}", 16) + `}`,
		"thousands of levels":          strings.Repeat(`{"a":`, 12000),
		"another payload":              `{"protected":"$P","payload":"","signature":"$S"}`,
		"another protected":            `{"protected":"` + b64(keys()["ES256"].header(`a:1`)) + `","payload":"$L","signature":"$S"}`,
		"no bytes of signature":        `{"protected":"$P","payload":"$L","signature":""}`,
		"no bytes of protected":        `{"protected":"","payload":"$L","signature":"$S"}`,
	} {
		refused(t, reason, m.in(body), account, jws.Options{}, "malformed")
	}
	for reason, body := range map[string]string{
		"an escaped name":           `{"prot\u0065cted":"$P","payload":"$L","signature":"$S"}`,
		"spaces":                    " \r\n" + bodyGood + "\t",
		"other members":             `{"Protected":1,"PAYLOAD":null,"protected":"$P","payload":"$L","signature":"$S","resource":{"a":[{"b":1},{"b":1}]}}`,
		"16 levels":                 `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `}`,
		"16 levels of arrays twice": `{"protected":"$P","payload":"$L","signature":"$S","a":` + strings.Repeat("[", 15) + strings.Repeat("]", 15) + `,"b":[[]]}`,
	} {
		if got := outcome(m.in(body), account, jws.Options{}); got != "" {
			t.Errorf("%s: %s", reason, got)
		}
	}
	large := m.in(bodyGood) + strings.Repeat(" ", jws.MaxSize)
	if _, problem := jws.Parse([]byte(large), jws.Anybody, jws.Options{}); kind(problem) != "malformed" || problem.Status != 413 {
		t.Errorf("a large message: %v", problem)
	}
}

// Protected headers, each signed with the key that it names.
func TestHostileHeaders(t *testing.T) {
	key := keys()["ES256"]
	good := key.header()
	inner := good[1 : len(good)-1]
	for reason, header := range map[string]string{
		"null":                      "null",
		"an array":                  "[" + good + "]",
		"a text":                    `"a"`,
		"two objects":               good + good,
		"text after it":             good + " x",
		"a byte order mark":         "\ufeff" + good,
		"not UTF-8":                 "{" + inner + ",\"a\":\"\xff\"}",
		"17 levels":                 "{" + inner + `,"a":` + strings.Repeat("[", 16) + strings.Repeat("]", 16) + "}",
		"alg twice":                 "{" + inner + `,"alg":"ES256"}`,
		"alg twice, once none":      `{"alg":"none",` + inner + "}",
		"alg twice, once escaped":   `{"\u0061lg":"none",` + inner + "}",
		"url twice":                 "{" + inner + `,"url":"` + requestURL + `"}`,
		"nonce twice":               "{" + inner + `,"nonce":"AAAA"}`,
		"kid twice":                 "{" + inner + `,"kid":"` + accountURL + `"}`,
		"another member twice":      "{" + inner + `,"a":{"b":1,"b":1}}`,
		"no alg":                    key.header("alg:"),
		"only ALG":                  key.header("alg:", `ALG:"ES256"`),
		"alg null":                  key.header("alg:null"),
		"alg a number":              key.header("alg:256"),
		"alg an array":              key.header(`alg:["ES256"]`),
		"no url":                    key.header("url:"),
		"only Url":                  key.header("url:", `Url:"`+requestURL+`"`),
		"url null":                  key.header("url:null"),
		"url an array":              key.header(`url:["` + requestURL + `"]`),
		"nonce null":                key.header("nonce:null"),
		"nonce a number":            key.header("nonce:1"),
		"nonce an array":            key.header(`nonce:["AAAA"]`),
		"neither jwk nor kid":       key.header("kid:"),
		"only KID":                  key.header("kid:", `KID:"`+accountURL+`"`),
		"only JWK":                  key.header("kid:", `JWK:$JWK`),
		"jwk and kid":               key.header("jwk:$JWK"),
		"kid null and jwk":          key.header("kid:null", "jwk:$JWK"),
		"kid empty and jwk":         key.header(`kid:""`, "jwk:$JWK"),
		"kid and jwk null":          key.header("jwk:null"),
		"kid and jwk empty":         key.header("jwk:{}"),
		"kid null":                  key.header("kid:null"),
		"kid empty":                 key.header(`kid:""`),
		"kid a number":              key.header("kid:1"),
		"kid an object":             key.header("kid:{}"),
		"jwk null":                  key.header("kid:", "jwk:null"),
		"jwk a text":                key.header("kid:", `jwk:"`+b64(key.jwk())+`"`),
		"jwk an array":              key.header("kid:", "jwk:[$JWK]"),
		"crit":                      key.header(`crit:["url"]`),
		"crit with exp":             key.header(`crit:["exp"]`, "exp:1"),
		"crit empty":                key.header("crit:[]"),
		"crit null":                 key.header("crit:null"),
		"b64 false":                 key.header("b64:false"),
		"b64 false, critical":       key.header("b64:false", `crit:["b64"]`),
		"b64 true":                  key.header("b64:true"),
		"x5c":                       key.header("x5c:[]"),
		"x5c instead of a key":      key.header("kid:", `x5c:["MIIB"]`),
		"x5u":                       key.header(`x5u:"https://evil.example/chain"`),
		"jku":                       key.header(`jku:"https://evil.example/keys"`),
		"a member of the jwk twice": key.header("kid:", "jwk:"+key.jwk()[:len(key.jwk())-1]+`,"kty":"EC"}`),
	} {
		refused(t, reason, key.message(header, "{}").body(), key.key(), jws.Options{}, "malformed")
	}
}

// Algorithms that are not accepted, or do not fit the key.
func TestHostileAlgorithms(t *testing.T) {
	for _, alg := range []string{
		"none", "None", "NONE", "nOnE", "", "null", "HS256", "HS384", "HS512", "es256", "ES256 ", "ES256\\u0000", " ES256", "ES256K", "ES224", "RS1", "RSA-OAEP", "RSA1_5",
		"dir", "A128KW", "ECDH-ES", "ML-DSA-44", "Ed25519", "Ed448", "eddsa", "RS384", "RS512", "PS256", "PS384", "PS512", "*", "ES256,RS256",
	} {
		key := keys()["ES256"]
		for _, from := range []string{key.header(`alg:"` + alg + `"`), key.header(`alg:"`+alg+`"`, "kid:", "jwk:$JWK")} {
			refused(t, alg, key.message(from, "{}").body(), key.key(), jws.Options{}, "badSignatureAlgorithm")
			m := key.message(from, "{}")
			m.Signature = ""
			refused(t, alg+" without a signature", m.body(), key.key(), jws.Options{}, "badSignatureAlgorithm")
		}
	}
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS384", "PS512"} {
		key := keys()[alg]
		refused(t, alg+" of its own key, not permitted", key.message(key.header(), "{}").body(), key.key(), jws.Options{LargeRSA: true}, "badSignatureAlgorithm")
	}
	// The classic: a MAC whose key is the public key, in each of its spellings.
	rsaKey := keys()["RS256"]
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{der, []byte(rsaKey.jwk()), []byte(base64.StdEncoding.EncodeToString(der))} {
		m := signedMessage{Protected: b64(rsaKey.header(`alg:"HS256"`)), Payload: b64("{}")}
		m.Signature = b64(hmacOf(crypto.SHA256, secret, m.Protected+"."+m.Payload))
		refused(t, "a MAC", m.body(), rsaKey.key(), everything, "badSignatureAlgorithm")
	}
	for alg := range keys() {
		for other, key := range keys() {
			same := alg == other || strings.Trim(alg, "PR2358461") == "S" && strings.Trim(other, "PR2358461") == "S"
			if same {
				continue
			}
			for _, from := range []string{key.header(`alg:"` + alg + `"`), key.header(`alg:"`+alg+`"`, "kid:", "jwk:$JWK")} {
				refused(t, fmt.Sprintf("%s by a key of %s", alg, other), key.message(from, "{}").body(), key.key(), everything, "badSignatureAlgorithm")
			}
		}
	}
}

// Signatures that are not those of the message and the key.
func TestHostileSignatures(t *testing.T) {
	for alg, key := range keys() {
		m := key.message(key.header(), `{"a":1}`)
		input := m.Protected + "." + m.Payload
		good := key.sign(input)
		forms := map[string][]byte{
			"nothing":                 {},
			"a byte":                  {0},
			"a byte less":             good[:len(good)-1],
			"a byte more":             append(slices.Clone(good), 0),
			"a zero byte before":      append([]byte{0}, good...),
			"zeros":                   make([]byte, len(good)),
			"ones":                    []byte(strings.Repeat("\xff", len(good))),
			"twice":                   append(slices.Clone(good), good...),
			"a bit":                   flipped(good, 0),
			"the last bit":            flipped(good, len(good)-1),
			"of the decoded parts":    key.sign(key.header() + `.{"a":1}`),
			"of the payload":          key.sign(m.Payload),
			"of the protected header": key.sign(m.Protected),
			"of no payload":           key.sign(m.Protected + "."),
			"of padded parts":         key.sign(m.Protected + "=." + m.Payload + "="),
			"of another header":       key.sign(b64(key.header(`nonce:"AAAA"`)) + "." + m.Payload),
			"of another order":        key.sign(m.Payload + "." + m.Protected),
			"of a line break more":    key.sign(input + "\n"),
		}
		if public, ok := key.Public().(*ecdsa.PublicKey); ok {
			size := len(good) / 2
			r, s := new(big.Int).SetBytes(good[:size]), new(big.Int).SetBytes(good[size:])
			n := public.Curve.Params().N
			der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
			if err != nil {
				t.Fatal(err)
			}
			zero := new(big.Int)
			forms["as DER"], forms["exchanged"] = der, halves(s, r, size)
			forms["r of zero"], forms["s of zero"], forms["both of zero"] = halves(zero, s, size), halves(r, zero, size), halves(zero, zero, size)
			forms["r as large as the order"], forms["s as large as the order"] = halves(n, s, size), halves(r, n, size)
		}
		if alg == "EdDSA" { // S + the order of the group
			order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
			s := slices.Clone(good[32:])
			slices.Reverse(s)
			larger := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
			slices.Reverse(larger)
			forms["a larger S"] = append(slices.Clone(good[:32]), larger...)
		}
		for other := range keys() {
			if other != alg && other[1:] != "dDSA" && keys()[other].Signer == key.Signer {
				forms["by "+other] = key.with(other).sign(input)
			}
		}
		for reason, signature := range forms {
			m.Signature = b64(string(signature))
			refused(t, alg+": "+reason, m.body(), key.key(), everything, "malformed")
		}
		m.Signature = b64(string(good))
		if got := outcome(m.body(), key.key(), everything); got != "" {
			t.Errorf("%s: the good one: %s", alg, got)
		}
	}
	one, other := keys()["ES256"], newECKey(t)
	refused(t, "of another key", other.message(other.header(), "{}").body(), one.key(), jws.Options{}, "malformed")
	refused(t, "of another key than that in it", other.message(one.header("kid:", "jwk:$JWK"), "{}").body(), nil, jws.Options{}, "malformed")
}

func flipped(data []byte, at int) []byte {
	out := slices.Clone(data)
	out[at] ^= 1
	return out
}
