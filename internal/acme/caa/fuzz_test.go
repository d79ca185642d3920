package caa

import (
	"strings"
	"testing"
)

// FuzzParse reads records of others.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"ca.example", ";", "ca.example; accounturi=https://ca.example/1; validationmethods=dns-01,http-01", "a b", "x;=", "x; a=b; a=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		issuer, parameters, err := parse(value)
		if err != nil {
			return
		}
		if strings.ContainsAny(issuer, " \t;=") || issuer != strings.ToLower(issuer) {
			t.Errorf("issuer %q", issuer)
		}
		for tag, values := range parameters {
			if tag == "" || strings.ContainsAny(tag, ";=") || len(values) == 0 {
				t.Errorf("parameter %q: %q", tag, values)
			}
		}
	})
}
