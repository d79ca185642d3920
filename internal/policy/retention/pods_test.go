package retention

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// podRequest returns a request that was created age ago, and got its outcome
// outcome ago; a negative time means that it has none.
func podRequest(name string, age, outcome time.Duration) PodRequest {
	r := PodRequest{Namespace: "ns", Name: name, Node: "n", Created: now.Add(-age)}
	if outcome >= 0 {
		r.Finished = now.Add(-outcome)
	}
	return r
}

const without = -time.Second

func TestDecidePod(t *testing.T) {
	const age = 15 * time.Minute
	for _, tt := range []struct {
		reason  string
		request PodRequest
		age     time.Duration
		want    Reason
		again   time.Duration
	}{
		{"young and pending", podRequest("a", 14*time.Minute, without), age, "", time.Minute},
		{"young and finished", podRequest("a", 14*time.Minute, time.Minute), age, "", time.Minute},
		{"old and pending", podRequest("a", age, without), age, Pending, 0},
		{"old and finished a moment ago", podRequest("a", age, 0), age, Finished, 0},
		{"forever", podRequest("a", 100*time.Hour, without), 0, "", 0},
		{"going already", PodRequest{Created: now.Add(-time.Hour), Deleting: true}, age, "", 0},
	} {
		got := DecidePod(tt.request, now, tt.age)
		var again time.Time
		if tt.again > 0 {
			again = now.Add(tt.again)
		}
		if got.Reason != tt.want || !got.Again.Equal(again) || got.Delete() != (got.Message != "") {
			t.Errorf("%s: %+v, want %q, again %v", tt.reason, got, tt.want, again)
		}
	}
}

func TestPodSurplus(t *testing.T) {
	const hour = time.Hour
	crowd := func(n int, age, outcome time.Duration) []PodRequest {
		var requests []PodRequest
		for i := range n {
			requests = append(requests, podRequest(fmt.Sprintf("crowd-%03d", i), age+time.Duration(n-i), outcome))
		}
		return requests
	}
	for _, tt := range []struct {
		reason   string
		max      int
		requests []PodRequest
		want     []string
		again    time.Duration
	}{
		{"none too many", 2, []PodRequest{podRequest("a", hour, 0), podRequest("b", hour, 0)}, nil, 0},
		{"no bound", 0, crowd(100, hour, without), nil, 0},
		{"finished ones first", 1, []PodRequest{podRequest("old", 3*hour, without), podRequest("issued", 2*hour, hour), podRequest("older", 4*hour, without)}, []string{"issued", "older"}, 0},
		{"what the node may not have seen is spared", 1, []PodRequest{podRequest("new", time.Minute, without), podRequest("issued", hour, time.Minute), podRequest("old", hour, without)}, []string{"old"}, spare},
		{"those being deleted count, but cannot go again", 1, []PodRequest{{Name: "x", Deleting: true}, podRequest("a", hour, without)}, []string{"a"}, 0},
		{"ten times too many", 10, crowd(102, time.Minute, without), []string{"crowd-000", "crowd-001"}, spare},
		{"ten times too many, all issued", 10, crowd(101, time.Minute, 0), []string{"crowd-000"}, spare},
	} {
		surplus, again := PodSurplus(tt.requests, now, Cap{Max: tt.max, Spare: spare})
		var names []string
		for _, r := range surplus {
			names = append(names, r.Name)
		}
		var want time.Time
		if tt.again > 0 {
			want = now.Add(tt.again)
		}
		if diff := cmp.Diff(tt.want, names); diff != "" || !again.Equal(want) {
			t.Errorf("%s: again %v, (-want +got):\n%s", tt.reason, again, diff)
		}
	}
}

func TestPodSurplusOfBytes(t *testing.T) {
	old, young := podRequest("old", 2*time.Hour, 2*time.Hour), podRequest("young", time.Hour, time.Hour)
	old.Bytes, young.Bytes = 600, 600
	surplus, _ := PodSurplus([]PodRequest{old, young}, now, Cap{Max: 10, MaxBytes: 1000, Spare: spare})
	if len(surplus) != 1 || surplus[0].Name != "old" {
		t.Errorf("surplus %v, want the old one", surplus)
	}
}
