package heap

import "testing"

func TestPace(t *testing.T) {
	const mega = 1 << 20
	type second struct{ allocated, live uint64 }
	idle, load := second{mega, 40 * mega}, second{500 * mega, 40 * mega}
	tests := []struct {
		reason  string
		seconds []second
		want    int
	}{
		{"at rest it is Go's own", []second{idle, idle}, 100},
		{"load gets the slack", []second{load}, 320},
		{"a short lull is no rest", []second{load, idle, idle}, 320},
		{"a lull starts anew with each load", []second{load, idle, idle, load, idle, idle}, 320},
		{"rest ends it", []second{load, idle, idle, idle}, 100},
		{"it follows what is alive", []second{load, {500 * mega, 80 * mega}}, 160},
		{"but not each little step", []second{load, {500 * mega, 42 * mega}}, 320},
		{"a heap above the slack grows as Go's does", []second{{500 * mega, 400 * mega}}, 100},
		{"nothing is known to be alive before the first collection", []second{{500 * mega, 0}}, 100 * 128 * mega},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			p := pace{slack: 128 * mega, percent: defaultPercent}
			for _, s := range tt.seconds {
				p = p.next(s.allocated, s.live)
			}
			if p.percent != tt.want {
				t.Errorf("percent = %d, want %d", p.percent, tt.want)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	if got := totalMemory("MemTotal:       24683132 kB\nMemFree: 1 kB\n", 7); got != 24683132<<10 {
		t.Errorf("total = %d", got)
	}
	if got := totalMemory("", 7); got != 7 {
		t.Errorf("an unknown total = %d, want what is given", got)
	}
	if got := groupMemory("536870912\n", 7); got != 512<<20 {
		t.Errorf("limit = %d", got)
	}
	if got := groupMemory("max\n", 7); got != 7 {
		t.Errorf("no limit = %d, want what is given", got)
	}
	if got := slack(); got == 0 || got > maxSlack {
		t.Errorf("slack = %d", got)
	}
}
