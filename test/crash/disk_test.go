package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// rlimitFsize is RLIMIT_FSIZE, which package syscall does not name everywhere.
const rlimitFsize = 1

// diskBlock is the unit in which file systems allocate: a write that meets a
// full disk is cut at the end of a block. etcd relies on it not being cut
// within a sector.
const diskBlock = 4096

// fillDisk leaves room for about so many bytes in etcd's write-ahead log. The write that
// crosses the limit is cut short, and each one after it fails (setrlimit(2),
// RLIMIT_FSIZE), as on a full file system, but with the error EFBIG. It needs no rights
// and no separate file system.
func fillDisk(room int64) error {
	written, err := logEnd()
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitFsize, &limit); err != nil {
		return err
	}
	limit.Cur = uint64((written + room) / diskBlock * diskBlock)
	return syscall.Setrlimit(rlimitFsize, &limit)
}

// logEnd returns the position up to which this process has written the last
// file of the write-ahead log, whose space is reserved ahead.
func logEnd() (int64, error) {
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return 0, err
	}
	descriptors := map[string]string{}
	for _, file := range files {
		if name, err := os.Readlink(file); err == nil && strings.HasSuffix(name, ".wal") {
			descriptors[name] = filepath.Base(file)
		}
	}
	if len(descriptors) == 0 {
		return 0, fmt.Errorf("finding the write-ahead log: %w", errNotHere)
	}
	var names []string
	for name := range descriptors {
		names = append(names, name)
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + descriptors[slices.Max(names)])
	if err != nil {
		return 0, err
	}
	var position int64
	_, err = fmt.Sscanf(string(info), "pos: %d", &position)
	return position, err
}
