package nonce_test

import (
	"encoding/base64"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time                      { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(by time.Duration)            { c.at.Add(int64(by)) }
func frozen() time.Time                              { return time.Unix(1_000_000, 0) }
func redeem(n *nonce.Nonces, s string) nonce.Outcome { outcome, _ := n.Redeem(s); return outcome }

func newNonces(t testing.TB, now func() time.Time) *nonce.Nonces {
	t.Helper()
	n, err := nonce.New(now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRedeemedOnce(t *testing.T) {
	n := newNonces(t, frozen)
	one, two := n.Issue(), n.Issue()
	if len(one) != 59 || nonce.Size != 59 || one == two {
		t.Errorf("nonces %q, %q", one, two)
	}
	for i, want := range []nonce.Outcome{nonce.Valid, nonce.Used, nonce.Used} {
		if got := redeem(n, one); got != want {
			t.Errorf("time %d: %s, want %s", i, got, want)
		}
	}
	if got := redeem(n, two); got != nonce.Valid {
		t.Errorf("the other one: %s", got)
	}
}

func TestMalformed(t *testing.T) {
	n := newNonces(t, frozen)
	good := n.Issue()
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil || len(raw) != 44 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for _, bad := range []string{
		"", "a", good + "A", good[1:], good + "=", good[:58] + "\n", good[:58] + "=", "\n" + good[1:], good[:30] + "+" + good[31:], good[:30] + "\x00" + good[31:],
		stray(good),
	} {
		if got := redeem(n, bad); got != nonce.Malformed {
			t.Errorf("%q: %s", bad, got)
		}
	}
	for i := range raw { // each byte is authenticated, or names the process
		raw[i] ^= 1
		want := nonce.Malformed
		if i < 4 {
			want = nonce.Foreign
		}
		if got := redeem(n, base64.RawURLEncoding.EncodeToString(raw)); got != want {
			t.Errorf("byte %d: %s, want %s", i, got, want)
		}
		raw[i] ^= 1
	}
	if got := redeem(n, good); got != nonce.Valid {
		t.Errorf("after all that the good one is %s", got)
	}
}

// stray returns the same bytes in another spelling: the last two bits of the last
// character have no meaning.
func stray(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range alphabet {
		if alphabet[i] == text[len(text)-1] {
			return text[:len(text)-1] + alphabet[i+1:i+2]
		}
	}
	return ""
}

func TestLifetime(t *testing.T) {
	var c clock
	n := newNonces(t, c.now)
	c.advance(90 * time.Minute)
	first, second := n.Issue(), n.Issue()
	c.advance(nonce.Lifetime - 1)
	if got := redeem(n, first); got != nonce.Valid {
		t.Errorf("just before the end: %s", got)
	}
	c.advance(1)
	if got := redeem(n, second); got != nonce.Expired {
		t.Errorf("at the end: %s", got)
	}
	if got := redeem(n, n.Issue()); got != nonce.Valid {
		t.Errorf("a new one: %s", got)
	}
}

func TestWindow(t *testing.T) {
	n := newNonces(t, frozen)
	first, second := n.Issue(), n.Issue()
	used := n.Issue()
	if got := redeem(n, used); got != nonce.Valid {
		t.Fatal(got)
	}
	for range nonce.Window - 2 { // first has left, second is the oldest
		n.Issue()
	}
	for _, tc := range []struct {
		reason string
		nonce  string
		want   nonce.Outcome
	}{
		{"one too old", first, nonce.Expired}, {"the oldest", second, nonce.Valid}, {"the oldest again", second, nonce.Used}, {"used, still in the window", used, nonce.Used},
	} {
		if got := redeem(n, tc.nonce); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
	}
	n.Issue()
	if got := redeem(n, n.Issue()); got != nonce.Valid { // its bit is that of used
		t.Errorf("one whose bit a used nonce had: %s", got)
	}
	if got := redeem(n, used); got != nonce.Expired {
		t.Errorf("used, out of the window: %s", got)
	}
}

func TestOtherProcess(t *testing.T) {
	a, b := newNonces(t, frozen), newNonces(t, frozen)
	from := b.Issue()
	outcome, instance := a.Redeem(from)
	if outcome != nonce.Foreign || instance != b.Instance() || instance == a.Instance() || len(instance.String()) != 8 {
		t.Errorf("%s, made by %s: a is %s, b is %s", outcome, instance, a.Instance(), b.Instance())
	}
	if got := redeem(b, from); got != nonce.Valid {
		t.Errorf("the process that has made it: %s", got)
	}
	if outcome, instance := a.Redeem(from); outcome != nonce.Foreign || instance != b.Instance() {
		t.Errorf("again: %s, %s", outcome, instance)
	}
}

func TestConcurrentRedeem(t *testing.T) {
	n := newNonces(t, frozen)
	for range 20 {
		one := n.Issue()
		var valid, used atomic.Int32
		concurrently(1000, func() {
			switch redeem(n, one) {
			case nonce.Valid:
				valid.Add(1)
			case nonce.Used:
				used.Add(1)
			}
		})
		if valid.Load() != 1 || used.Load() != 999 {
			t.Fatalf("%d were the first, %d the others", valid.Load(), used.Load())
		}
	}
}

// Nonces are issued and redeemed at once, also such as share a word of the bitmap.
func TestConcurrentIssue(t *testing.T) {
	n := newNonces(t, frozen)
	var valid atomic.Int32
	concurrently(64, func() {
		for range 500 {
			if one := n.Issue(); redeem(n, one) == nonce.Valid && redeem(n, one) == nonce.Used {
				valid.Add(1)
			}
		}
	})
	if valid.Load() != 64*500 {
		t.Errorf("%d of %d were redeemed once", valid.Load(), 64*500)
	}
}

// While a used nonce is presented again, another one is issued that frees its bit.
func TestLeavesWindowWhileRedeemed(t *testing.T) {
	meanwhile := func() {}
	n := newNonces(t, func() time.Time { meanwhile(); return frozen() })
	one := n.Issue()
	for range nonce.Window - 1 {
		n.Issue()
	}
	if got := redeem(n, one); got != nonce.Valid {
		t.Fatal(got)
	}
	meanwhile = func() { meanwhile = func() {}; n.Issue() }
	if got := redeem(n, one); got != nonce.Expired {
		t.Errorf("it is %s a second time", got)
	}
}

func concurrently(calls int, call func()) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for range calls {
		group.Go(func() {
			<-start
			call()
		})
	}
	close(start)
	group.Wait()
}

// Anybody may ask for nonces: they must not fill the memory.
func TestMemory(t *testing.T) {
	n := newNonces(t, frozen)
	if got := testing.AllocsPerRun(1000, func() { n.Issue() }); got > 1 {
		t.Errorf("%v allocations for a nonce, want that of the text", got)
	}
	one := n.Issue()
	if got := testing.AllocsPerRun(1000, func() { n.Redeem(one) }); got > 0 {
		t.Errorf("%v allocations to redeem a nonce", got)
	}
	before := alive()
	for range 1_000_000 {
		n.Issue()
	}
	if after := alive(); after > before+64<<10 {
		t.Errorf("%d bytes are alive after a million nonces, before %d", after, before)
	}
	runtime.KeepAlive(n)
}

func alive() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools have dropped
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// FuzzRedeem: only what was issued is ever valid, in the only spelling.
func FuzzRedeem(f *testing.F) {
	n := newNonces(f, frozen)
	issued := n.Issue()
	for _, seed := range []string{issued, issued[:58], issued + "=", stray(issued), newNonces(f, frozen).Issue(), ""} {
		f.Add(seed, uint8(len(seed)/2), byte('A'))
	}
	f.Fuzz(func(t *testing.T, text string, at uint8, with byte) {
		changed := []byte(issued)
		changed[int(at)%len(changed)] = with
		for _, one := range []string{text, string(changed)} {
			outcome, instance := n.Redeem(one)
			switch {
			case (outcome == nonce.Valid || outcome == nonce.Used) && one != issued:
				t.Errorf("%q is %s", one, outcome)
			case outcome == nonce.Foreign && instance == n.Instance():
				t.Errorf("%q is said to be of another process", one)
			case outcome == nonce.Malformed:
				continue
			}
			if raw, err := base64.RawURLEncoding.DecodeString(one); err != nil || base64.RawURLEncoding.EncodeToString(raw) != one {
				t.Errorf("%q has another spelling", one)
			}
		}
	})
}

func BenchmarkIssue(b *testing.B) {
	n := newNonces(b, frozen)
	b.ReportAllocs()
	for b.Loop() {
		n.Issue()
	}
}

func BenchmarkRedeem(b *testing.B) {
	n := newNonces(b, frozen)
	b.ReportAllocs()
	for b.Loop() {
		if redeem(n, n.Issue()) != nonce.Valid {
			b.Fatal("a new nonce is not valid")
		}
	}
}
