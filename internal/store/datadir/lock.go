package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/certplane/certplane/internal/process/filelock"
)

// ErrInUse reports that another process holds the lock of a data directory.
var ErrInUse = errors.New("is in use by another certplane server")

// TakeLock locks the data directory for this process. The returned file holds
// the lock until it is closed or the process ends, even by a crash. The error
// wraps ErrInUse if another process has it.
func (d Dir) TakeLock() (*os.File, error) {
	file, err := os.OpenFile(d.Lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	switch taken, err := filelock.Take(file); {
	case err != nil:
		_ = file.Close()
		return nil, fmt.Errorf("locking the data directory: %w", err)
	case !taken:
		defer file.Close()
		return nil, fmt.Errorf("data directory %s %w%s; stop that one or choose another with --data-dir", d, ErrInUse, lockOwner(file))
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

// InUse reports whether a server holds the lock, and which process, in brackets, if that is
// known. It changes nothing.
func (d Dir) InUse() (owner string, used bool, err error) {
	file, err := os.Open(d.Lock())
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("looking at the lock of the data directory: %w", err)
	}
	defer file.Close()
	switch held, err := filelock.Held(file); {
	case err != nil:
		return "", false, fmt.Errorf("looking at the lock of the data directory: %w", err)
	case held:
		return lockOwner(file), true, nil
	}
	return "", false, nil
}

func lockOwner(file *os.File) string {
	data, err := io.ReadAll(io.LimitReader(file, 32))
	pid := strings.TrimSpace(string(data))
	if err != nil || pid == "" {
		return ""
	}
	return " (process " + pid + ")"
}
