package roots

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func newRoot(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root.Certificate()
}

func names(certs []*x509.Certificate) string {
	var names []string
	for _, cert := range certs {
		names = append(names, cert.Subject.CommonName)
	}
	return strings.Join(names, " ")
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	a, b := newRoot(t, "a"), newRoot(t, "b")
	both := pki.EncodeCertificates(a, b)
	path := filepath.Join(t.TempDir(), "roots.pem")
	write(t, path, pki.EncodeCertificates(a))
	clock := clocktesting.NewFakePassiveClock(now)
	roots, err := File(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(roots()); got != "a" {
		t.Fatalf("roots %q", got)
	}
	for _, step := range []struct {
		reason string
		data   []byte
		want   string
	}{
		{"unchanged", pki.EncodeCertificates(a), "a"},
		{"changed", both, "a b"},
		{"empty", nil, "a b"},
		{"no certificate", []byte("x"), "a b"},
		{"half of a certificate", both[:len(both)-100], "a b"},
		{"whole again", pki.EncodeCertificates(b), "b"},
	} {
		write(t, path, step.data)
		before := names(roots())
		clock.SetTime(clock.Now().Add(lookEvery))
		if got := names(roots()); got != before {
			t.Errorf("%s: %q after one look, which may be at a half-written file", step.reason, got)
		}
		clock.SetTime(clock.Now().Add(lookEvery))
		if got := names(roots()); got != step.want {
			t.Errorf("%s: %q, want %q", step.reason, got, step.want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(lookEvery))
	if got := names(roots()); got != "b" {
		t.Errorf("without a file: %q", got)
	}
}

func TestFileThatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots.pem")
	if _, err := File(path, nil); err == nil {
		t.Error("there is no file")
	}
	whole := pki.EncodeCertificates(newRoot(t, "a"))
	for _, data := range [][]byte{nil, []byte("x"), whole[:len(whole)-10], append(whole, whole[:100]...)} {
		write(t, path, data)
		if _, err := File(path, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
	}
}

func TestOverlapping(t *testing.T) {
	a, b := newRoot(t, "a"), newRoot(t, "b")
	today := []*x509.Certificate{a}
	clock := clocktesting.NewFakePassiveClock(now)
	roots := &Overlapping{Today: func() []*x509.Certificate { return today }, Overlap: time.Hour, Clock: clock}
	roots.Roots()
	today = []*x509.Certificate{b}
	if got := names(roots.Roots()); got != "b a" {
		t.Errorf("roots %q", got)
	}
	// Another process goes on with what this one has published.
	next := &Overlapping{Today: roots.Today, Overlap: time.Hour, Clock: clock}
	clock.SetTime(now.Add(time.Minute))
	c, d := newRoot(t, "c"), newRoot(t, "d")
	next.Remember(append(roots.Anchors(), rollover.Anchor{Certificate: c}, rollover.Anchor{Certificate: d, Until: now.Add(1000 * time.Hour)}))
	if got := names(next.Roots()); got != "b a c d" {
		t.Errorf("after a restart: %q", got)
	}
	clock.SetTime(now.Add(time.Hour))
	if got := names(roots.Roots()); got != "b" {
		t.Errorf("after the overlap: %q", got)
	}
	if got := names(next.Roots()); got != "b c d" {
		t.Errorf("after the overlap of the first process: %q", got)
	}
	clock.SetTime(now.Add(time.Hour + time.Minute))
	if got := names(next.Roots()); got != "b" {
		t.Errorf("after the overlap of the second process: %q", got)
	}
}

func TestJoined(t *testing.T) {
	a, b := Static(newRoot(t, "a")), Static(newRoot(t, "b"))
	if got := names(Joined(a, b)()); got != "a b" {
		t.Errorf("roots %q", got)
	}
	if got := Joined(a, Static())(); got != nil {
		t.Errorf("with one that knows of none: %q", names(got))
	}
}

func TestWatch(t *testing.T) {
	var current atomic.Pointer[x509.Certificate]
	current.Store(newRoot(t, "a"))
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, func() []*x509.Certificate {
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
			}
			return []*x509.Certificate{current.Load()}
		}, time.Millisecond, func() { changes <- struct{}{} })
	}()
	<-asked
	<-asked
	if len(changes) != 0 {
		t.Error("a change without one")
	}
	current.Store(newRoot(t, "b"))
	for len(changes) == 0 {
		<-asked
	}
	<-asked
	<-asked
	cancel()
	<-ended
	if len(changes) != 1 {
		t.Errorf("%d changes, want one", len(changes))
	}
}

// Several goroutines read the roots of a file that changes at the same time.
func TestFileIsSafeForConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roots.pem")
	write(t, path, pki.EncodeCertificates(newRoot(t, "a")))
	clock := clocktesting.NewFakePassiveClock(now)
	roots, err := File(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, pki.EncodeCertificates(newRoot(t, "b")))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for names(roots()) != "b" {
				clock.SetTime(clock.Now().Add(lookEvery))
			}
		})
	}
	all.Wait()
}
