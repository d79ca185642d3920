// Package filelock locks files for processes. A lock lasts until the file is closed or the
// process ends, even by a crash.
package filelock

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Take locks file, and reports whether it could: false means that another file holds the
// lock.
func Take(file *os.File) (bool, error) {
	for {
		if taken, err := try(file, syscall.LOCK_EX); taken || err != nil {
			return taken, err
		}
		// Whoever only looks, as Held does, must not keep a process from its lock.
		if held, err := Held(file); held || err != nil {
			return false, err
		}
		runtime.Gosched()
	}
}

// Held reports whether another file has taken the lock. It must not be called for a file that
// has the lock itself.
func Held(file *os.File) (bool, error) {
	free, err := try(file, syscall.LOCK_SH)
	if free {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	}
	return !free && err == nil, err
}

func try(file *os.File, kind int) (bool, error) {
	err := syscall.Flock(int(file.Fd()), kind|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
