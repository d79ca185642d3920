//go:build unix

package apiserver

import "syscall"

// maxOpenFiles returns how many files this process may have open.
func maxOpenFiles() (limit uint64, known bool) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, false
	}
	return uint64(files.Cur), true
}
