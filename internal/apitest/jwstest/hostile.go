package jwstest

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"math/big"
	"slices"
	"strings"
)

// GoodBody is the flattened form. $P, $L and $S are the parts of a message.
const GoodBody = `{"protected":"$P","payload":"$L","signature":"$S"}`

// Bodies are bodies that are not signed messages, by their defect.
var Bodies = map[string]string{
	"nothing":                      "",
	"spaces":                       " \n",
	"null":                         "null",
	"a number":                     "1",
	"a text":                       `"$P.$L.$S"`,
	"true":                         "true",
	"an empty object":              "{}",
	"an array":                     "[" + GoodBody + "]",
	"the compact form":             "$P.$L.$S",
	"two messages":                 GoodBody + GoodBody,
	"two messages in lines":        GoodBody + "\n" + GoodBody,
	"text after the message":       GoodBody + "x",
	"a brace after the message":    GoodBody + "}",
	"NUL after the message":        GoodBody + "\x00",
	"a byte order mark":            "\ufeff" + GoodBody,
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
	"no bytes of signature":        `{"protected":"$P","payload":"$L","signature":""}`,
	"no bytes of protected":        `{"protected":"","payload":"$L","signature":"$S"}`,
}

// Headers returns protected headers that must be refused although the key that they name has
// signed them, by their defect.
func Headers(key Key, to Request) map[string]string {
	good := key.Header(to)
	inner := good[1 : len(good)-1]
	return map[string]string{
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
		"url twice":                 "{" + inner + `,"url":"` + to.URL + `"}`,
		"nonce twice":               "{" + inner + `,"nonce":"AAAA"}`,
		"kid twice":                 "{" + inner + `,"kid":"` + to.Account + `"}`,
		"another member twice":      "{" + inner + `,"a":{"b":1,"b":1}}`,
		"no alg":                    key.Header(to, "alg:"),
		"only ALG":                  key.Header(to, "alg:", `ALG:"ES256"`),
		"alg null":                  key.Header(to, "alg:null"),
		"alg a number":              key.Header(to, "alg:256"),
		"alg an array":              key.Header(to, `alg:["ES256"]`),
		"no url":                    key.Header(to, "url:"),
		"only Url":                  key.Header(to, "url:", `Url:"`+to.URL+`"`),
		"url null":                  key.Header(to, "url:null"),
		"url an array":              key.Header(to, `url:["`+to.URL+`"]`),
		"nonce null":                key.Header(to, "nonce:null"),
		"nonce a number":            key.Header(to, "nonce:1"),
		"nonce an array":            key.Header(to, `nonce:["AAAA"]`),
		"neither jwk nor kid":       key.Header(to, "kid:"),
		"only KID":                  key.Header(to, "kid:", `KID:"`+to.Account+`"`),
		"only JWK":                  key.Header(to, "kid:", `JWK:$JWK`),
		"jwk and kid":               key.Header(to, "jwk:$JWK"),
		"kid null and jwk":          key.Header(to, "kid:null", "jwk:$JWK"),
		"kid empty and jwk":         key.Header(to, `kid:""`, "jwk:$JWK"),
		"kid and jwk null":          key.Header(to, "jwk:null"),
		"kid and jwk empty":         key.Header(to, "jwk:{}"),
		"kid null":                  key.Header(to, "kid:null"),
		"kid empty":                 key.Header(to, `kid:""`),
		"kid a number":              key.Header(to, "kid:1"),
		"kid an object":             key.Header(to, "kid:{}"),
		"jwk null":                  key.Header(to, "kid:", "jwk:null"),
		"jwk a text":                key.Header(to, "kid:", `jwk:"`+Base64(key.JWK())+`"`),
		"jwk an array":              key.Header(to, "kid:", "jwk:[$JWK]"),
		"crit":                      key.Header(to, `crit:["url"]`),
		"crit with exp":             key.Header(to, `crit:["exp"]`, "exp:1"),
		"crit empty":                key.Header(to, "crit:[]"),
		"crit null":                 key.Header(to, "crit:null"),
		"b64 false":                 key.Header(to, "b64:false"),
		"b64 false, critical":       key.Header(to, "b64:false", `crit:["b64"]`),
		"b64 true":                  key.Header(to, "b64:true"),
		"x5c":                       key.Header(to, "x5c:[]"),
		"x5c instead of a key":      key.Header(to, "kid:", `x5c:["MIIB"]`),
		"x5u":                       key.Header(to, `x5u:"https://evil.example/chain"`),
		"jku":                       key.Header(to, `jku:"https://evil.example/keys"`),
		"a member of the jwk twice": key.Header(to, "kid:", "jwk:"+key.JWK()[:len(key.JWK())-1]+`,"kty":"EC"}`),
	}
}

// Algorithms are not accepted, or do not fit a key of ES256.
var Algorithms = []string{
	"none", "None", "NONE", "nOnE", "", "null", "HS256", "HS384", "HS512", "es256", "ES256 ", "ES256\\u0000", " ES256", "ES256K", "ES224", "RS1", "RSA-OAEP", "RSA1_5",
	"dir", "A128KW", "ECDH-ES", "ML-DSA-44", "Ed25519", "Ed448", "eddsa", "RS384", "RS512", "PS256", "PS384", "PS512", "*", "ES256,RS256",
}

// Signatures returns signatures that do not match a message and its key, by their defect.
// payload is not encoded.
func Signatures(key Key, to Request, payload string) map[string][]byte {
	m := key.Message(key.Header(to), payload)
	input := m.Protected + "." + m.Payload
	good := key.Sign(input)
	forms := map[string][]byte{
		"nothing":                 {},
		"a byte":                  {0},
		"a byte less":             good[:len(good)-1],
		"a byte more":             append(slices.Clone(good), 0),
		"a zero byte before":      append([]byte{0}, good...),
		"zeros":                   make([]byte, len(good)),
		"ones":                    []byte(strings.Repeat("\xff", len(good))),
		"twice":                   append(slices.Clone(good), good...),
		"a bit":                   Flipped(good, 0),
		"the last bit":            Flipped(good, len(good)-1),
		"of the decoded parts":    key.Sign(key.Header(to) + "." + payload),
		"of the payload":          key.Sign(m.Payload),
		"of the protected header": key.Sign(m.Protected),
		"of no payload":           key.Sign(m.Protected + "."),
		"of padded parts":         key.Sign(m.Protected + "=." + m.Payload + "="),
		"of another header":       key.Sign(Base64(key.Header(to, `nonce:"AAAA"`)) + "." + m.Payload),
		"of another order":        key.Sign(m.Payload + "." + m.Protected),
		"of a line break more":    key.Sign(input + "\n"),
	}
	if public, ok := key.Public().(*ecdsa.PublicKey); ok {
		size := len(good) / 2
		r, s := new(big.Int).SetBytes(good[:size]), new(big.Int).SetBytes(good[size:])
		n := public.Curve.Params().N
		der, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
		if err != nil {
			panic(err)
		}
		zero := new(big.Int)
		forms["as DER"], forms["exchanged"] = der, halves(s, r, size)
		forms["r of zero"], forms["s of zero"], forms["both of zero"] = halves(zero, s, size), halves(r, zero, size), halves(zero, zero, size)
		forms["r as large as the order"], forms["s as large as the order"] = halves(n, s, size), halves(r, n, size)
	}
	if key.Alg == "EdDSA" { // S + the order of the group
		order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
		s := slices.Clone(good[32:])
		slices.Reverse(s)
		larger := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
		slices.Reverse(larger)
		forms["a larger S"] = append(slices.Clone(good[:32]), larger...)
	}
	for other := range Keys() {
		if other != key.Alg && other[1:] != "dDSA" && Keys()[other].Signer == key.Signer {
			forms["by "+other] = key.With(other).Sign(input)
		}
	}
	return forms
}

// Flipped returns data with one bit changed.
func Flipped(data []byte, at int) []byte {
	out := slices.Clone(data)
	out[at] ^= 1
	return out
}
