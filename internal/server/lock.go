package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/certplane/certplane/internal/datadir"
)

// lockDataDir makes dir and takes it for this process. The returned file
// holds the lock until it is closed or the process ends, however it ends.
func lockDataDir(dir datadir.Dir) (*os.File, error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	if err := os.Chmod(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("closing the data directory to other users: %w", err)
	}
	file, err := os.OpenFile(dir.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another certplane server%s; stop that one or choose another with --data-dir", dir, lockOwner(file))
		}
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return file, noteOwner(file)
}

// noteOwner writes the process number into the lock file, for lockOwner.
func noteOwner(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	return nil
}

func lockOwner(file *os.File) string {
	data, err := io.ReadAll(io.LimitReader(file, 32))
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" {
		return ""
	}
	return " (process " + pid + ")"
}
