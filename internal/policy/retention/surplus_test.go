package retention

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const spare = 5 * time.Minute

func TestSurplus(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	cert := valid(t, 9*hour, hour)
	fresh := valid(t, 0, hour)
	named := func(name string, c *csr) *csr { c.Name = name; return c }
	crowd := func(n int, age time.Duration, changes ...change) []*csr {
		var requests []*csr
		for i := range n {
			requests = append(requests, named(fmt.Sprintf("crowd-%03d", i), newCSR(age+time.Duration(n-i), changes...)))
		}
		return requests
	}
	issuedLong := func(name string, age time.Duration) *csr { return named(name, newCSR(age, says(approved, age), cert)) }
	tests := []struct {
		reason   string
		max      int
		requests []*csr
		want     []string
		again    time.Duration
	}{
		{"none too many", 2, []*csr{issuedLong("a", hour), issuedLong("b", hour)}, nil, 0},
		{"no bound", 0, []*csr{issuedLong("a", hour), issuedLong("b", hour)}, nil, 0},
		{"the oldest", 2, []*csr{issuedLong("a", hour), issuedLong("b", 3*hour), issuedLong("c", 2*hour), issuedLong("d", minute)}, []string{"b", "c"}, 0},
		{"finished ones before older pending ones", 2, []*csr{
			named("pending", newCSR(5*hour)),
			named("denied", newCSR(5*hour, says(denied, hour))),
			named("failed", newCSR(5*hour, says(approved, 4*hour), says(failed, 2*hour))),
			issuedLong("issued", 90*minute),
		}, []string{"failed", "issued"}, 0},
		{"then pending ones", 1, []*csr{named("old", newCSR(hour)), issuedLong("issued", hour), named("older", newCSR(2*hour))}, []string{"issued", "older"}, 0},
		{"a remark is no decision", 1, []*csr{named("remarked", newCSR(2*hour, says(remark, minute))), named("pending", newCSR(hour))}, []string{"remarked"}, 0},
		{"equally old ones by name", 1, []*csr{named("b", newCSR(hour)), named("a", newCSR(hour))}, []string{"a"}, 0},
		{"outcomes that may not have been seen are spared", 1, []*csr{
			named("issued", newCSR(5*hour, says(approved, 4*minute), cert)),
			named("denied", newCSR(5*hour, says(denied, spare))),
			named("failed", newCSR(5*hour, says(approved, hour), says(failed, minute))),
		}, nil, spare},
		{"so are certificates that came long after the approval", 1, []*csr{
			named("a", newCSR(5*hour, says(approved, 4*hour), fresh)),
			named("b", newCSR(5*hour, says(approved, 4*hour), fresh)),
		}, nil, spare},
		{"so are new requests", 1, []*csr{named("new", newCSR(minute)), named("newer", newCSR(0)), named("old", newCSR(hour))}, []string{"old"}, spare},
		{"so are approved ones, however old", 1, []*csr{
			named("a", newCSR(9*hour, says(approved, 9*hour))), named("b", newCSR(9*hour, says(approved, 9*hour))), named("pending", newCSR(hour)),
		}, []string{"pending"}, spare},
		{"those being deleted count, but cannot go again", 1, []*csr{issuedLong("a", hour), named("stays", deleted(newCSR(9*hour)))}, []string{"a"}, 0},
		{"nothing but what is being deleted", 1, []*csr{named("stays", deleted(newCSR(9*hour))), named("too", deleted(newCSR(9*hour)))}, nil, 0},

		{"ten times too many new ones", 10, crowd(102, minute), []string{"crowd-000", "crowd-001"}, spare},
		{"not quite ten times too many", 10, crowd(100, minute), nil, spare},
		{"of ten times too many, old ones first", 10, append(crowd(100, minute), named("approved", newCSR(hour, says(approved, hour)))), []string{"approved"}, spare},
		{"then new ones, then new outcomes", 10, append(crowd(100, minute, says(denied, minute)), named("new", newCSR(0))), []string{"new"}, spare},
		{"new outcomes", 10, crowd(101, hour, says(denied, minute)), []string{"crowd-000"}, spare},
		{"approved ones on their way never", 10, crowd(120, hour, says(approved, minute)), nil, spare},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			surplus, again := Surplus(tc.requests, now, Cap{Max: tc.max, Spare: spare})
			var got []string
			for _, c := range surplus {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
			want := time.Time{}
			if tc.again != 0 {
				want = now.Add(tc.again)
			}
			if !again.Equal(want) {
				t.Errorf("to be looked at again at %v, want %v", again, want)
			}
		})
	}
}

func deleted(c *csr) *csr {
	c.DeletionTimestamp = &c.CreationTimestamp
	return c
}

// Without a time to spare, everything but what is approved just now may go.
func TestSurplusWithoutSpare(t *testing.T) {
	requests := []*csr{newCSR(time.Second), newCSR(time.Second, says(denied, time.Second)), newCSR(time.Second)}
	surplus, again := Surplus(requests, now, Cap{Max: 1})
	if len(surplus) != 2 || !again.IsZero() {
		t.Errorf("%d of 3 go, and again at %v", len(surplus), again)
	}
}

// Few large requests are as many small ones.
func TestSurplusOfBytes(t *testing.T) {
	large := func(name string, age time.Duration) *csr {
		c := newCSR(age)
		c.Name, c.Annotations = name, map[string]string{"large": strings.Repeat("x", 10<<10)}
		return c
	}
	requests := []*csr{large("a", 3*time.Hour), large("b", 2*time.Hour), large("c", time.Hour), large("d", time.Minute)}
	tests := []struct {
		reason string
		limit  Cap
		want   []string
		again  bool
	}{
		{"room for all", Cap{Max: 10, MaxBytes: 50 << 10, Spare: spare}, nil, false},
		{"no bound", Cap{Spare: spare}, nil, false},
		{"room for two", Cap{Max: 10, MaxBytes: 25 << 10, Spare: spare}, []string{"a", "b"}, false},
		{"room for two, and no other bound", Cap{MaxBytes: 25 << 10, Spare: spare}, []string{"a", "b"}, false},
		{"room for none, and a new one", Cap{Max: 10, MaxBytes: 5 << 10, Spare: spare}, []string{"a", "b", "c"}, true},
		{"ten times room for none", Cap{Max: 10, MaxBytes: 512, Spare: spare}, []string{"a", "b", "c", "d"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			surplus, again := Surplus(requests, now, tt.limit)
			var got []string
			for _, c := range surplus {
				got = append(got, c.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || again.IsZero() == tt.again {
				t.Errorf("again %v, (-want +got):\n%s", again, diff)
			}
		})
	}
}
