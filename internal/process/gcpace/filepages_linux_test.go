package gcpace

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCleanMappings(t *testing.T) {
	// each mapping without most of its fields
	const smaps = `00400000-00500000 r-xp 00000000 fe:00 10716735                           /usr/bin/certplane
Rss:                 512 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
00500000-00600000 r--p 00100000 fe:00 10716735                           /usr/bin/certplane
Anonymous:             4 kB
00600000-00610000 rw-p 00200000 fe:00 10716735                           /usr/bin/certplane
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0                              [anon: Go: heap]
Anonymous:         65536 kB
7f0000000000-7f0000001000 ---p 00000000 00:00 0
Anonymous:             0 kB
7f1d4be00000-7f220be00000 r--s 00000000 fe:00 10806407                   /data/a folder/db
Anonymous:             0 kB
7ffd00000000-7ffd00021000 r--p 00000000 00:00 0                          [vvar]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x500000}, {0x7f1d4be00000, 0x7f220be00000}}
	if diff := cmp.Diff(want, cleanMappings(strings.NewReader(smaps)), cmp.AllowUnexported(mapping{})); diff != "" {
		t.Error(diff)
	}
}

// What is released is mapped again when it is used: this very program runs on.
func TestReleaseFilePages(t *testing.T) {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer smaps.Close()
	if len(cleanMappings(smaps)) == 0 {
		t.Error("not even the program's code is a clean mapping")
	}
	releaseFilePages()
	if got := totalMemory("MemTotal:       24683132 kB\n", 7); got != 24683132<<10 {
		t.Errorf("total = %d", got)
	}
}
