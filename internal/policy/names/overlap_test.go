package names_test

import (
	"math/rand/v2"
	"testing"

	"github.com/certplane/certplane/internal/policy/names"
)

func signers(t *testing.T, text string) names.Glob {
	t.Helper()
	glob, err := names.ParseSigner(text)
	if err != nil {
		t.Fatal(err)
	}
	return glob
}

func TestOverlaps(t *testing.T) {
	for _, tc := range []struct {
		reason, a, b string
		want         bool
	}{
		{"the same name", "example.com/web", "example.com/web", true},
		{"two names", "example.com/web", "example.com/db", false},
		{"every signer", "*", "example.com/web", true},
		{"every signer twice", "*", "*", true},
		{"a name of a pattern", "example.com/*", "example.com/web", true},
		{"a name of another domain", "example.com/*", "example.org/web", false},
		{"a star does not cross a slash", "example.com/*", "example.com/a/b", false},
		{"two stars that meet", "example.com/web-*", "example.com/*-prod", true},
		{"two stars that do not", "example.com/web-*", "example.com/db-*", false},
		{"stars on both sides of the slash", "*/web", "example.com/*", true},
		{"other names of issuers", "issuers.cert-manager.io/shop.*", "clusterissuers.cert-manager.io/*", false},
		{"what follows a star", "example.com/*a", "example.com/*b", false},
		{"what surrounds a star", "example.com/a*z", "example.com/*m*", true},
	} {
		a, b := signers(t, tc.a), signers(t, tc.b)
		if got := a.Overlaps(b); got != tc.want || b.Overlaps(a) != got {
			t.Errorf("%s: %s and %s: %t, want %t, and %t the other way round", tc.reason, tc.a, tc.b, got, tc.want, b.Overlaps(a))
		}
	}
}

// TestOverlapIsNeverMissed: two patterns that match one name overlap.
func TestOverlapIsNeverMissed(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	text := func(alphabet string) string {
		of := func() (s string) {
			for range 1 + random.IntN(4) {
				s += string(alphabet[random.IntN(len(alphabet))])
			}
			return s
		}
		return of() + "/" + of()
	}
	met := 0
	for range 200_000 {
		one, other, name := text("ab*"), text("ab*"), text("ab")
		a, b := signers(t, one), signers(t, other)
		if a.Match(name) && b.Match(name) {
			if met++; !a.Overlaps(b) {
				t.Fatalf("%s and %s both match %s", one, other, name)
			}
		}
	}
	if met < 300 {
		t.Errorf("only %d pairs have matched", met)
	}
}
