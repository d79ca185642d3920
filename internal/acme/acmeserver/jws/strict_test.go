package jws_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
)

type examplePayload struct {
	CSR         string          `json:"csr"`
	Agreed      *bool           `json:"termsOfServiceAgreed"`
	Reason      *int            `json:"reason"`
	Contact     []string        `json:"contact"`
	Raw         json.RawMessage `json:"raw"`
	Identifiers []struct {
		Type string `json:"type"`
	} `json:"identifiers"`
}

func TestDecodePayload(t *testing.T) {
	deep := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	for reason, payload := range map[string]string{
		"empty": "{}", "spaces": " \n{ }\t", "unknown members": `{"resource":"x","csr":"a","x":{"y":[1,{}]}}`, "16 levels": deep(16),
		"another case": `{"CSR":1,"Csr":2,"csr":"a"}`, "null": `{"csr":null}`, "an escaped name": `{"\u0063sr":"a"}`, "equal names in different objects": `{"csr":"a","x":{"csr":"b"},"y":[{"csr":1},{"csr":2}]}`,
		"a name of two objects below": `{"a":{"b":{}},"b":1}`, "large numbers": `{"x":1e999,"y":123456789012345678901234567890}`, "an empty name": `{"":1}`, "equal texts that are no names": `{"x":["a","a","a",{"a":"a"},"a"],"y":"x"}`, "surrogates": `{"x":"\ud83d\ude00"}`,
	} {
		var into examplePayload
		if problem := jws.DecodePayload([]byte(payload), &into); problem != nil {
			t.Errorf("%s: %v", reason, problem)
		}
		if strings.Contains(payload, `"a"`) && strings.Contains(reason, "case") && into.CSR != "a" {
			t.Errorf("%s: %+v", reason, into)
		}
	}
	for reason, payload := range map[string]string{
		"nothing": "", "spaces": "  ", "null": "null", "an array": "[]", "a text": `"a"`, "a number": "0", "true": "true",
		"two objects": "{}{}", "text after it": "{} x", "a brace": "{}}", "NUL": "{}\x00", "a byte order mark": "\ufeff{}", "not UTF-8": "{\"a\":\"\xff\"}", "UTF-16": "{\x00}\x00",
		"a comma": `{"csr":"a",}`, "no comma": `{"csr":"a" "x":1}`, "a comma in an array": `{"a":[1,]}`, "no colon": `{"csr" "a"}`, "not closed": `{"csr":"a"`, "a name that is a number": `{1:2}`,
		"a comment": `{/**/}`, "a leading zero": `{"a":01}`, "hexadecimal": `{"a":0x1}`, "infinity": `{"a":Infinity}`, "a control character": "{\"a\":\"\n\"}", "a bad escape": `{"a":"\x"}`,
		"a member twice": `{"csr":"a","csr":"a"}`, "a member twice, escaped": `{"csr":"a","\u0063sr":"a"}`, "twice in an unknown object": `{"x":{"y":1,"y":1}}`, "twice in an object in arrays": `{"x":[[],[{"y":[],"z":{},"y":1}]]}`,
		"twice after an object": `{"x":{"y":1},"x":1}`, "twice after an array": `{"x":[1],"y":2,"x":1}`, "17 levels": deep(17), "many levels": deep(20000), "many levels of objects": strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000),
		"a wrong type": `{"csr":1}`, "an object for a text": `{"csr":{}}`, "a text for a boolean": `{"termsOfServiceAgreed":"true"}`, "a fraction": `{"reason":1.5}`, "a large number": `{"reason":99999999999999999999}`, "a text for an array": `{"contact":"a"}`,
		"numbers in an array": `{"contact":[1]}`, "deeper": `{"identifiers":[{"type":1}]}`,
	} {
		var into examplePayload
		problem := jws.DecodePayload([]byte(payload), &into)
		if kind(problem) != "malformed" {
			t.Errorf("%s: %v", reason, problem)
			continue
		}
		checkAnswer(t, reason, problem)
		if strings.Contains(problem.Detail, "struct") {
			t.Errorf("%s: names a Go type: %s", reason, problem.Detail)
		}
	}
}

func TestDecodeBase64URL(t *testing.T) {
	for _, tc := range []struct {
		text           string
		strict, padded bool
	}{
		{"", true, true}, {"AA", true, true}, {"AAA", true, true}, {"AAAA", true, true}, {"_-AA", true, true},
		{"AA==", false, true}, {"AAA=", false, true}, {"AA=", false, false}, {"AAA==", false, false}, {"AAAA=", false, false}, {"AAAA====", false, false}, {"====", false, false}, {"=", false, false},
		{"A", false, false}, {"AB", false, false}, {"AB==", false, false}, {"AAB", false, false}, {"+/AA", false, false}, {"AA\n", false, false}, {"A\r\nA", false, false}, {"AA==\n", false, false}, {"AA=\n=", false, false}, {" AA", false, false}, {"AA==AA==", false, false},
	} {
		for padded, want := range map[bool]bool{false: tc.strict, true: tc.padded} {
			if _, err := jws.DecodeBase64URL(tc.text, padded); (err == nil) != want {
				t.Errorf("%q, padded %v: %v", tc.text, padded, err)
			}
		}
	}
}
