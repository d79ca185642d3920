package gcpace

import (
	"testing"
	"testing/fstest"
)

func TestPace(t *testing.T) {
	const mega = 1 << 20
	type second struct{ allocated, live uint64 }
	idle, load := second{mega, 40 * mega}, second{500 * mega, 40 * mega}
	tests := []struct {
		reason  string
		seconds []second
		want    int
		loaded  bool
	}{
		{"a start is load, until it is over", []second{idle, idle}, 100, true},
		{"at rest it is Go's own", []second{idle, idle, idle}, 100, false},
		{"load gets the slack", []second{load}, 320, true},
		{"a short lull is no rest", []second{load, idle, idle}, 320, true},
		{"a lull starts again with each load", []second{load, idle, idle, load, idle, idle}, 320, true},
		{"rest ends it", []second{load, idle, idle, idle}, 100, false},
		{"also where the slack was no more than Go's own", []second{{500 * mega, 200 * mega}, idle, idle, idle}, 100, false},
		{"it follows what is alive", []second{load, {500 * mega, 80 * mega}}, 160, true},
		{"but not each little step", []second{load, {500 * mega, 42 * mega}}, 320, true},
		{"a heap above the slack grows as Go's does", []second{{500 * mega, 400 * mega}}, 100, true},
		{"a large heap grows less", []second{{500 * mega, 1024 * mega}}, 50, true},
		{"also at rest", []second{{500 * mega, 1024 * mega}, {mega, 1024 * mega}, {mega, 1024 * mega}, {mega, 1024 * mega}}, 50, false},
		{"nothing is known to be alive before the first collection", []second{{500 * mega, 0}}, 100 * 128 * mega, true},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			p := initialPace()
			p.slack = 128 * mega
			for _, s := range tt.seconds {
				p = p.next(s.allocated, s.live)
			}
			if p.percent != tt.want || p.loaded != tt.loaded {
				t.Errorf("percent = %d, loaded = %t, want %d, %t", p.percent, p.loaded, tt.want, tt.loaded)
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

// Limits are those of the process's own group and of all above it.
func TestLimitOfGroups(t *testing.T) {
	const mega = 1 << 20
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		reason, groups string
		files          fstest.MapFS
		want           uint64
	}{
		{"a unit of systemd", "0::/system.slice/certplane.service\n", fstest.MapFS{
			"system.slice/certplane.service/memory.max": file("167772160\n"), "system.slice/memory.max": file("max\n"),
		}, 160 * mega},
		{"a slice above the unit", "0::/system.slice/certplane.service\n", fstest.MapFS{
			"system.slice/certplane.service/memory.max": file("max\n"), "system.slice/memory.max": file("209715200\n"),
		}, 200 * mega},
		{"a container that has its own root", "0::/\n", fstest.MapFS{"memory.max": file("167772160\n")}, 160 * mega},
		{"a container that knows the path of the host", "0::/kubepods/pod1\n", fstest.MapFS{"memory.max": file("167772160\n")}, 160 * mega},
		{"version 1", "4:cpu,memory:/system.slice/a.service\n0::/system.slice/a.service\n", fstest.MapFS{
			"memory/system.slice/a.service/memory.limit_in_bytes": file("167772160\n"), "memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 160 * mega},
		{"version 2 beside version 1", "1:name=systemd:/a\n0::/a\n", fstest.MapFS{"unified/a/memory.max": file("167772160\n")}, 160 * mega},
		{"another controller's group", "4:cpu:/a\n", fstest.MapFS{"memory/a/memory.limit_in_bytes": file("167772160\n")}, 7000 * mega},
		{"a machine with less", "0::/a\n", fstest.MapFS{"a/memory.max": file("9223372036854771712\n")}, 7000 * mega},
		{"no groups", "", nil, 7000 * mega},
		{"a path that leads elsewhere", "0::/../../a\n", fstest.MapFS{"a/memory.max": file("167772160\n")}, 160 * mega},
	} {
		if got := limitOfGroups(tt.files, tt.groups, 7000*mega); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.reason, got, tt.want)
		}
	}
}
