//go:build linux || darwin

package etcd

import "syscall"

// diskFree returns how many bytes this process can still write to the file system of dir.
func diskFree(dir string) (free int64, known bool) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, false
	}
	return int64(disk.Bavail) * int64(disk.Bsize), true
}
