package jws_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
)

// BenchmarkMessage is the work for a message before anything of it is believed.
func BenchmarkMessage(b *testing.B) {
	for _, alg := range []string{"ES256", "ES384", "EdDSA", "RS256"} {
		key := keys()[alg]
		for form, body := range map[string]string{
			"kid": key.Message(key.header(), `{"identifiers":[{"type":"dns","value":"a.example"}]}`).Body(),
			"jwk": key.Message(key.header("kid:", "jwk:$JWK"), `{"contact":["mailto:a@b.example"]}`).Body(),
		} {
			b.Run(alg+"/"+form, func(b *testing.B) {
				account := key.key()
				for b.Loop() {
					if _, problem := read(body, account, jws.Options{}); problem != nil {
						b.Fatal(problem)
					}
				}
			})
		}
	}
}

// BenchmarkHostile is the work for the largest messages that are refused.
func BenchmarkHostile(b *testing.B) {
	for reason, body := range map[string]string{
		"names":   "{" + strings.Repeat(`"a":1,`, jws.MaxSize/6-2) + `"b":1}`,
		"numbers": `{"a":[` + strings.Repeat("1,", jws.MaxSize/2-8) + "1]}",
		"objects": `{"a":[` + strings.Repeat("{},", jws.MaxSize/3-8) + "1]}",
		"escapes": `{"a":"` + strings.Repeat(`\u0041`, jws.MaxSize/6-4) + `"}`,
	} {
		b.Run(reason, func(b *testing.B) {
			for b.Loop() {
				if _, problem := jws.Parse([]byte(body), jws.Anybody, jws.Options{}); problem == nil || problem.Status != 400 {
					b.Fatal(problem)
				}
			}
		})
	}
}
