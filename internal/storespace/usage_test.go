package storespace

import "testing"

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
