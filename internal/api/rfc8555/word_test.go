package rfc8555_test

import (
	"testing"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

func TestWord(t *testing.T) {
	for kind, want := range map[string]string{
		rfc8555.Namespace + "rateLimited":   "rateLimited",
		rfc8555.Namespace + "connection":    "connection",
		rfc8555.Namespace + "x\ny":          "other",
		"rateLimited":                       "other",
		"":                                  "other",
		"urn:ietf:params:acme:error:caaCAA": "other",
	} {
		if got := (&rfc8555.Problem{Type: kind}).Word(); got != want {
			t.Errorf("%q: %s, not %s", kind, got, want)
		}
	}
	if got := (*rfc8555.Problem)(nil).Word(); got != "none" {
		t.Errorf("nil: %s", got)
	}
}
