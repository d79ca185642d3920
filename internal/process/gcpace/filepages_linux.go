package gcpace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseFilePages unmaps the file pages that this process has read through its address
// space: the pages of the program, and those of etcd's database, which a burst maps as a
// whole. Nothing is lost, because the kernel maps a page again on use, from its own cache if
// it can.
func releaseFilePages() {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	for _, m := range cleanMappings(smaps) {
		// An error means that the pages stay.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.begin, m.end-m.begin, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ begin, end uintptr }

// cleanMappings returns the mappings of files in smaps (proc_pid_smaps(5)) that contain only
// the contents of the file: the process cannot write to them, and the kernel has made no
// copy of a page for the process, as it does for a linker or a debugger.
func cleanMappings(smaps io.Reader) []mapping {
	var clean []mapping
	var m mapping
	ofFile := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		switch {
		case strings.ContainsRune(field, '-'): // 00400000-03876000 r-xp 00000000 fe
			var permissions string
			n, err := fmt.Sscanf(field, "%x-%x %4s", &m.begin, &m.end, &permissions)
			ofFile = err == nil && n == 3 && permissions[1] == '-' && strings.Contains(line, " /")
		case field == "Anonymous" && ofFile && strings.TrimSpace(value) == "0 kB":
			clean = append(clean, m)
		}
	}
	return clean
}
