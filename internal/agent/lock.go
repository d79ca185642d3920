package agent

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks a file for this process until unlock is called or the process ends
// for any reason.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the agent's folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another agent uses %s: stop that one, or choose another folder with --data-dir", path)
		}
		return nil, fmt.Errorf("locking the agent's folder: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// Runs reports whether an agent works with the folder of cfg. It returns an
// error if the caller may not read the folder.
func Runs(cfg Config) (bool, error) {
	file, err := os.Open(cfg.lockFile())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
