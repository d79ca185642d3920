package profile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecidePod(t *testing.T) {
	cert, err := compile(t, podSpec()).Decide(podFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("spiffe://example.org/ns/shop/sa/web", cert.URIs[0].String()); diff != "" {
		t.Error(diff)
	}
	t.Logf("%+v", cert)
}
