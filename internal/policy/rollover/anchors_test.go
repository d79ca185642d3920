package rollover

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const (
	day     = 24 * time.Hour
	overlap = 30 * day
)

// root makes a root that ends so long after now.
// root is a CA that ends after so long, which can be past.
func root(t *testing.T, name string, life time.Duration) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.NewRoot(pki.UnrecordedSigning, name, key, life+30*day, now.Add(-30*day))
	if err != nil {
		t.Fatal(err)
	}
	return authority.Certificate()
}

func TestNext(t *testing.T) {
	a, b, short := root(t, "a", 365*day), root(t, "b", 365*day), root(t, "short", 10*day)
	all := func(certs ...*x509.Certificate) []*x509.Certificate { return certs }
	type step struct {
		reason string
		after  time.Duration
		today  []*x509.Certificate
		want   string
	}
	for _, story := range [][]step{
		{
			{"the first", 0, all(a), "a"},
			{"another one: both", day, all(b), "b a"},
			{"nothing new", 2 * day, all(b), "b a"},
			{"just before the end of the overlap", day + overlap - 1, all(b), "b a"},
			{"the end of the overlap", day + overlap, all(b), "b"},
		},
		{
			{"the first", 0, all(a), "a"},
			{"another one", day, all(b), "b a"},
			{"and back: the overlap starts again", 20 * day, all(a), "a b"},
			{"after the end of the first overlap", day + overlap, all(a), "a b"},
			{"another one again", 40 * day, all(b), "b a"},
			{"the end of the last overlap", 40*day + overlap, all(b), "b"},
		},
		{
			{"one that ends soon", 0, all(short), "short"},
			{"its successor", day, all(a), "a short"},
			{"it has ended", 11 * day, all(a), "a"},
		},
		{
			{"twice the same", 0, all(a, b, a), "a b"},
			{"one of them", 0, all(b), "b a"},
			{"none", 0, nil, "b a"},
		},
	} {
		var anchors []Anchor
		for _, step := range story {
			anchors = Next(anchors, step.today, now.Add(step.after), overlap)
			if got := names(Certificates(anchors)); got != step.want {
				t.Errorf("%s: trusted are %q, want %q", step.reason, got, step.want)
			}
		}
	}
	if got := names(Certificates(Next(Next(nil, all(a), now, 0), all(b), now, 0))); got != "b" {
		t.Errorf("without an overlap, trusted are %q", got)
	}
}

func names(certs []*x509.Certificate) string {
	text := ""
	for i, cert := range certs {
		if i > 0 {
			text += " "
		}
		text += cert.Subject.CommonName
	}
	return text
}
