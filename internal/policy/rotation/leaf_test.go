package rotation

import (
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func TestLeaf(t *testing.T) {
	ca, other := newPair(t, "ca", now), newPair(t, "ca", now) // for 100 hours
	leaf := Leaf{
		Subject: HostSubject("server", []string{"a.example", "::1"}), Usages: pki.ServerUsages(),
		Lifetime: 60 * time.Hour, RenewBefore: 10 * time.Hour,
	}
	short := leaf
	short.Lifetime = 9*time.Hour - 5*time.Minute // and begins 5 minutes earlier
	for _, tc := range []struct {
		reason string
		leaf   Leaf
		issued int // hours from now
		due    time.Time
	}{
		{"before its end", leaf, 0, in(50)},
		{"one that lives shorter", short, 0, in(6).Add(-5 * time.Minute)},
		{"one that ends with its CA", leaf, 70, in(100)},
	} {
		chain, key, err := tc.leaf.Issue(pki.UnrecordedSigning, ca.Authority, in(tc.issued))
		if err != nil {
			t.Fatal(err)
		}
		cert := chain[0]
		if !pki.SameKey(key.Public(), cert.PublicKey) || cert.VerifyHostname("a.example") != nil || cert.VerifyHostname("::1") != nil {
			t.Errorf("%s: issued for %v and %v", tc.reason, cert.DNSNames, cert.IPAddresses)
		}
		if due := tc.leaf.Renewal(cert, ca.Certificate()); !due.Equal(tc.due) {
			t.Errorf("%s: due at %v, want %v", tc.reason, due, tc.due)
		}
		if !tc.leaf.Lasts(cert, ca.Certificate(), tc.due.Add(-time.Second)) || tc.leaf.Lasts(cert, ca.Certificate(), tc.due) {
			t.Errorf("%s: does not last until %v", tc.reason, tc.due)
		}
		if tc.leaf.Lasts(cert, other.Certificate(), in(tc.issued)) {
			t.Errorf("%s: lasts with a CA that has not signed it", tc.reason)
		}
	}
}
