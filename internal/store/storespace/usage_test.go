package storespace

import (
	"fmt"
	"slices"
	"testing"

	"github.com/certplane/certplane/internal/tenant/fairshare"
)

func TestNextPage(t *testing.T) {
	for _, tt := range []struct {
		reason      string
		page, bytes int64
		want        int64
	}{
		{"small objects", 16, 16 << 10, 32},
		{"small objects, as many as there may be", maxPage, 1 << 20, maxPage},
		{"large ones", 16, 16 << 20, 8},
		{"one that is larger than a page", 1, 5 << 20, 1},
		{"about a page", 16, 3 << 20, 16},
	} {
		if got := nextPage(tt.page, tt.bytes); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.reason, got, tt.want)
		}
	}
}

// The largest tenants come first, with what they have written since the count.
func TestLargest(t *testing.T) {
	u, counted := newUsage(nil), map[fairshare.Tenant]int64{}
	of := func(i int) fairshare.Tenant { return fairshare.Tenant{Class: "user", Name: fmt.Sprint(i)} }
	for i := range 100 {
		counted[of(i)] = int64(i % 50)
	}
	u.end(counted)
	u.changed(of(3), 100)
	want := []holding{{of(3), 103}, {of(49), 49}, {of(99), 49}}
	if got := u.largest(3); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
