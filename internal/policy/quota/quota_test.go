package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// approval is one of the slow reference, which keeps all.
type approval struct {
	at  time.Time
	uid string
}

// TestWindows: with random requests, repetitions and restarts, no window of the
// length has more approvals than the limit, and nothing is refused that fits.
func TestWindows(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := Limit{1 + random.IntN(5), time.Minute + time.Duration(random.IntN(600))*time.Second}
		keys := []Key{KeyOf("p", "q", "alice"), KeyOf("p", "q", "bob")}
		all := map[Key][]approval{}
		l, now := New(), epoch
		for i := range 1500 {
			now = now.Add(time.Duration(random.Int64N(int64(limit.Per) / int64(limit.Certificates))))
			key, uid := keys[random.IntN(2)], fmt.Sprint(i)
			if past := all[key]; len(past) > 0 && random.IntN(4) == 0 {
				uid = past[len(past)-1-random.IntN(min(len(past), limit.Certificates))].uid
			}
			check(t, l, key, limit, uid, now, all)
			if random.IntN(5) == 0 {
				l = reread(t, l, now)
			}
		}
		for _, approvals := range all {
			if most := mostIn(approvals, limit.Per); most > limit.Certificates {
				t.Fatalf("seed %d: %d of %d are in %v", seed, most, limit.Certificates, limit.Per)
			}
		}
	}
}

// check decides about a request as the server does, and compares.
func check(t *testing.T, l *Ledger, key Key, limit Limit, uid string, now time.Time, all map[Key][]approval) {
	t.Helper()
	current, counted := 0, false
	for _, a := range all[key] {
		if now.Sub(a.at) < limit.Per+time.Second { // times are rounded up
			current++
		}
		counted = counted || a.uid == uid
	}
	use := l.Use(key, limit, uid, now)
	switch {
	case use.Counted && !counted, counted && !use.Counted && now.Sub(last(all[key], uid)) < limit.Per:
		t.Fatalf("%s at %v: counted is %t, want %t", uid, now, use.Counted, counted)
	case use.Fits() && !counted && current > limit.Certificates+1:
		t.Fatalf("%s at %v fits, and %d are in the window", uid, now, current)
	case !use.Fits() && current < limit.Certificates:
		t.Fatalf("%s at %v does not fit, and only %d are in the window", uid, now, current)
	case !use.Fits():
		before, then := l.Use(key, limit, uid, use.Again.Add(-time.Nanosecond)), l.Use(key, limit, uid, use.Again)
		if before.Fits() || !then.Fits() || !use.Again.After(now) {
			t.Fatalf("%s at %v fits again at %v: %+v before, %+v then", uid, now, use.Again, before, then)
		}
		return
	}
	if l.Count(key, Payer{}, limit, uid, now) {
		all[key] = append(all[key], approval{now, uid})
	}
}

func last(approvals []approval, uid string) time.Time {
	var at time.Time
	for _, a := range approvals {
		if a.uid == uid {
			at = a.at
		}
	}
	return at
}

// mostIn returns the largest number of approvals in a window of a length.
func mostIn(approvals []approval, length time.Duration) int {
	most, from := 0, 0
	for i, a := range approvals {
		for a.at.Sub(approvals[from].at) >= length {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// reread is what a server that starts again knows.
func reread(t *testing.T, l *Ledger, now time.Time) *Ledger {
	t.Helper()
	data, err := l.Encode(now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// A request that has ceased to count is still known for a while, so that it can
// be signed, and is forgotten then.
func TestRemembered(t *testing.T) {
	key, limit := KeyOf("q"), Limit{2, time.Minute}
	l := New()
	for i := range 4 {
		l.Count(key, Payer{}, limit, fmt.Sprint(i), epoch.Add(time.Duration(i)*time.Second))
	}
	for _, tc := range []struct {
		after time.Duration
		used  int
		known []bool
	}{
		{10 * time.Second, 4, []bool{true, true, true, true}},
		{61 * time.Second, 2, []bool{true, true, true, true}},
		{10 * time.Minute, 0, []bool{false, false, true, true}},
		{time.Minute + time.Hour + 2*time.Second, 0, []bool{false, false, false, true}},
		{2 * time.Hour, 0, []bool{false, false, false, false}},
	} {
		now := epoch.Add(tc.after)
		then := reread(t, l, now)
		for i, known := range tc.known {
			if use := then.Use(key, limit, fmt.Sprint(i), now); use.Used != tc.used || use.Counted != known {
				t.Errorf("after %v, of the request %d: %+v, want %d used, counted %t", tc.after, i, use, tc.used, known)
			}
		}
	}
}

// Clocks of several servers differ: what is counted out of order counts as long as
// it should.
func TestOutOfOrder(t *testing.T) {
	key, limit := KeyOf("q"), Limit{2, time.Minute}
	l := New()
	l.Count(key, Payer{}, limit, "a", epoch.Add(30*time.Second))
	l.Count(key, Payer{}, limit, "b", epoch)
	use := reread(t, l, epoch).Use(key, limit, "c", epoch.Add(31*time.Second))
	if use.Fits() || !use.Again.Equal(epoch.Add(time.Minute)) {
		t.Errorf("got %+v", use)
	}
}

// A ledger that has no room for more first forgets what does not count any more.
func TestFull(t *testing.T) {
	l, limit, now := New(), Limit{10_000, time.Hour}, epoch
	many := func(keys int, prefix string) {
		for k := range keys {
			for i := range 10_000 {
				key := KeyOf(prefix, fmt.Sprint(k))
				if l.lists[key] == nil {
					l.lists[key] = &list{per: 3600, certificates: 10_000}
				}
				l.lists[key].entries = append(l.lists[key].entries, entry{seconds(now), idOf(fmt.Sprint(prefix, k, i))})
			}
		}
	}
	many(5, "old")
	now = now.Add(time.Hour + time.Minute)
	many(5, "new")
	data, err := l.Encode(now)
	if err != nil || len(data) > MaxBytes {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if use := l.Use(KeyOf("new", "0"), limit, "x", now); use.Used != 10_000 || use.Fits() {
		t.Errorf("what counts is forgotten: %+v", use)
	}
	many(5, "more")
	if _, err := l.Encode(now); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
}

// However many have filled a ledger, one who has little still gets approvals.
func TestShares(t *testing.T) {
	const each = 500 // approvals in a list
	for _, payers := range []int{1, 2, 5, 20} {
		l, limit := New(), Limit{1_000_000, time.Hour}
		stored, known := []byte(header), []byte{}
		count := func(payer string, list, n int) error { // as processes do: an error leaves what is stored
			for i := range n {
				l.Count(KeyOf(payer, fmt.Sprint(list)), PayerOf(payer), limit, fmt.Sprint(i), epoch)
			}
			data, err := l.Encode(epoch)
			if err == nil {
				stored, known = data, l.EncodePayers()
				return nil
			}
			var failed error
			if l, failed = Decode(stored); failed != nil {
				t.Fatal(failed)
			}
			l.DecodePayers(known)
			return err
		}
		full := map[int]bool{}
		for list := 0; len(full) < payers; list++ {
			for i := range payers {
				if many := fmt.Sprint("many-", i); !full[i] && count(many, list, each) != nil {
					full[i] = true
					for n := each; n > 0; n /= 2 { // the rest, down to one approval
						for more := 0; count(many, list*each*each+n*each+more, n) == nil; more++ {
						}
					}
				}
			}
		}
		free, want := MaxBytes-l.size(), MaxBytes/(1+4*payers)
		if free < want-each*entryBytes {
			t.Errorf("%d payers leave %d bytes, want about %d", payers, free, want)
		}
		for i := range 3 {
			if err := count(fmt.Sprint("few-", i), 0, 3); err != nil {
				t.Errorf("beside %d payers: %v", payers, err)
			}
		}
	}
}

// Payers are kept beside the approvals. Those that are missing or of other lists are not
// known.
func TestPayers(t *testing.T) {
	l, limit := New(), Limit{1, time.Hour}
	l.Count(KeyOf("a"), PayerOf("one"), limit, "1", epoch)
	l.Count(KeyOf("b"), PayerOf("two"), limit, "2", epoch)
	data, err := l.Encode(epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason string
		payers []byte
		want   Payer
	}{
		{"as encoded", l.EncodePayers(), PayerOf("one")},
		{"of an earlier version", nil, Payer{}},
		{"of other lists", l.EncodePayers()[:8], Payer{}},
	} {
		read, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if read.DecodePayers(test.payers); read.lists[KeyOf("a")].payer != test.want {
			t.Errorf("%s: %x", test.reason, read.lists[KeyOf("a")].payer)
		}
	}
}

func TestKeys(t *testing.T) {
	if KeyOf("a", "bc") == KeyOf("ab", "c") || KeyOf("a") == KeyOf("a", "") {
		t.Error("the keys of different parts are the same")
	}
}

// FuzzDecode: what is read is what is written again, whoever wrote it.
func FuzzDecode(f *testing.F) {
	l := New()
	l.Count(KeyOf("a"), Payer{}, Limit{2, time.Hour}, "1", epoch)
	l.Count(KeyOf("b"), Payer{}, Limit{3, time.Minute}, "2", epoch)
	data, err := l.Encode(epoch)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte(header))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Decode(data)
		if err != nil {
			return
		}
		for key := range l.lists {
			l.Use(key, Limit{1, time.Hour}, "1", epoch)
			l.Count(key, Payer{}, Limit{1, time.Hour}, "1", epoch)
		}
		if again, err := l.Encode(epoch); err == nil {
			if _, err := Decode(again); err != nil {
				t.Errorf("what was written cannot be read: %v", err)
			}
		}
	})
}
