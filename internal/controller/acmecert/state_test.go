package acmecert

import (
	"crypto"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issued returns a state with a certificate of a new root, for 90 days.
func issued(t *testing.T, hosts ...string) state {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", newKey(t), pki.DefaultRootLifetime, begin)
	if err != nil {
		t.Fatal(err)
	}
	leaf := rotation.Leaf{Subject: rotation.HostSubject("", hosts), Usages: pki.ServerUsages(), Lifetime: 90 * 24 * time.Hour}
	s := state{source: "signer a.example/b", roots: []*x509.Certificate{root.Certificate()}, next: newKey(t)}
	if s.chain, s.key, err = leaf.Issue(pki.UnrecordedSigning, root, begin); err != nil {
		t.Fatal(err)
	}
	return s
}

// What is stored is read again, and what is broken is named without being shown.
func TestStoredForm(t *testing.T) {
	whole := issued(t, "a.example")
	bare := state{source: "self"}
	noRoots := issued(t, "a.example")
	noRoots.roots = nil
	for _, s := range []state{whole, bare, noRoots} {
		data, err := s.data()
		if err != nil {
			t.Fatal(err)
		}
		read, err := parse(data)
		if err != nil || read.source != s.source || len(read.chain) != len(s.chain) || len(read.roots) != len(s.roots) || (read.next == nil) != (s.next == nil) {
			t.Errorf("%+v is read as %+v (%v)", s, read, err)
		}
	}
	data, err := whole.data()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{certKey, keyKey, rootsKey, nextKey} {
		broken := maps.Clone(data)
		broken[key] = []byte("s3cret")
		if _, err := parse(broken); err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", key, err)
		}
	}
	other, err := issued(t, "a.example").data()
	if err != nil {
		t.Fatal(err)
	}
	data[keyKey] = other[keyKey]
	if _, err := parse(data); err == nil {
		t.Error("a certificate with the key of another one is taken")
	}
}

func TestRenewal(t *testing.T) {
	s := issued(t, "a.example", "192.0.2.1")
	if got, want := s.renewal([]string{"a.example", "192.0.2.1"}), s.chain[0].NotAfter.Add(-30*24*time.Hour); got.Sub(want).Abs() > time.Hour {
		t.Errorf("renewed at %s, want %s", got, want)
	}
	if got := s.renewal([]string{"a.example", "b.example"}); !got.IsZero() {
		t.Errorf("without a name it is renewed at %s", got)
	}
	if got := (state{}).renewal(nil); !got.IsZero() {
		t.Errorf("nothing is renewed at %s", got)
	}
}

// The root that has issued comes first, so that the fingerprint is that of it.
func TestProvers(t *testing.T) {
	ours, other := issued(t, "a.example"), issued(t, "a.example")
	both := []*x509.Certificate{other.roots[0], ours.roots[0]}
	if got := provers(ours.chain, both, begin.Add(time.Hour)); len(got) != 2 || !got[0].Equal(ours.roots[0]) {
		t.Errorf("%d roots, or in another order", len(got))
	}
	if got := provers(ours.chain, other.roots, begin.Add(time.Hour)); got != nil {
		t.Error("roots of others are shown")
	}
	if got := provers(ours.chain, nil, begin); got != nil {
		t.Error("there are roots of nothing")
	}
}

// Roots of an earlier certificate are shown until it has ended, and the issuing root stays
// the first.
func TestFormerRoots(t *testing.T) {
	old, next, third := issued(t, "a.example"), issued(t, "a.example"), issued(t, "a.example")
	end := old.chain[0].NotAfter
	next.former = old.followedBy("another", next.roots, begin.Add(time.Hour))
	data, err := next.data()
	if err != nil {
		t.Fatal(err)
	}
	if next, err = parse(data); err != nil {
		t.Fatal(err)
	}
	shown := func(s state, at time.Time, want ...*x509.Certificate) {
		t.Helper()
		if got := s.shown(at); !slices.EqualFunc(got, want, (*x509.Certificate).Equal) {
			t.Errorf("%d roots are shown at %s, want %d", len(got), at, len(want))
		}
	}
	shown(next, end.Add(-time.Minute), next.roots[0], old.roots[0])
	shown(next, end, next.roots[0])
	third.former = next.followedBy("a third", third.roots, begin.Add(2*time.Hour))
	shown(third, end.Add(-time.Minute), third.roots[0], old.roots[0], next.roots[0])
	// What has ended before, or comes back, is not former.
	if f := old.followedBy("another", next.roots, end); len(f.roots) > 0 {
		t.Error("a root is former after its last certificate")
	}
	if f := old.followedBy("another", old.roots, begin.Add(time.Hour)); len(f.roots) > 0 {
		t.Error("a root is former that is the present one")
	}
	if f := old.followedBy(old.source, next.roots, begin.Add(time.Hour)); len(f.roots) > 0 {
		t.Error("a root that its signer has withdrawn is former")
	}
	unknown := next
	unknown.roots = nil
	shown(unknown, begin.Add(time.Hour)) // the first one is what people compare
	data[formerUntilKey] = []byte("s3cret")
	if _, err := parse(data); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}
