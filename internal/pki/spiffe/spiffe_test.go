package spiffe_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki/spiffe"
)

func TestCheckTrustDomain(t *testing.T) {
	for domain, good := range map[string]bool{
		"example.org": true, "prod": true, "a_b-c.1": true, strings.Repeat("a", 255): true,
		"": false, "Example.org": false, "example.org:443": false, "user@example.org": false, "exämple.org": false,
		"example.org/": false, "a b": false, "%41": false, strings.Repeat("a", 256): false,
	} {
		if err := spiffe.CheckTrustDomain(domain); (err == nil) != good {
			t.Errorf("%q: %v", domain, err)
		}
	}
}

func TestCheckID(t *testing.T) {
	for id, good := range map[string]bool{
		"spiffe://example.org/ns/shop/sa/web": true, "spiffe://example.org/Web_1.x-y": true,
		"spiffe://example.org/" + strings.Repeat("a", 2027): true,
		"spiffe://example.org/" + strings.Repeat("a", 2028): false,

		"": false, "https://example.org/a": false, "SPIFFE://example.org/a": false, "spiffe:example.org/a": false,
		"spiffe:///a": false, "spiffe://example.org": false, "spiffe://example.org/": false, "spiffe://example.org/a/": false,
		"spiffe://example.org//a": false, "spiffe://example.org/a/../b": false, "spiffe://example.org/./b": false,
		"spiffe://example.org/a?b=c": false, "spiffe://example.org/a#b": false, "spiffe://example.org/%61": false,
		"spiffe://example.org:8443/a": false, "spiffe://me@example.org/a": false, "spiffe://example.org/ä": false,
	} {
		if err := spiffe.CheckID(id); (err == nil) != good {
			t.Errorf("%.60q: %v", id, err)
		}
	}
}
