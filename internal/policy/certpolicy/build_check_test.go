package certpolicy_test

import (
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// TestOrdinary: an ordinary request of each kind is approved, and is read as it
// was made.
func TestOrdinary(t *testing.T) {
	s := set(t, map[string]string{"web": web})
	for _, kind := range []v1alpha1.RequestKind{csrs, pcrs, crs} {
		d := decide(t, s, of(kind))
		if d.Outcome != v1alpha1.OutcomeApprove || d.Policy == nil || d.Policy.Name != "web" {
			t.Errorf("%s: %s", kind, encode(t, d))
		}
		foreign := decide(t, s, of(kind).but(func(a *asked) { a.dns = append(a.dns, "www.example.org") }))
		want := `Deny; web certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org`
		if got := brief(foreign); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}
