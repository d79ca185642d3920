package agent

import (
	"errors"
	"fmt"
	"os"

	"github.com/certplane/certplane/internal/process/filelock"
)

// lock locks a file for this process until unlock is called or the process ends
// for any reason.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the agent's folder: %w", err)
	}
	switch taken, err := filelock.Take(file); {
	case err != nil:
		_ = file.Close()
		return nil, fmt.Errorf("locking the agent's folder: %w", err)
	case !taken:
		_ = file.Close()
		return nil, fmt.Errorf("another agent uses %s: stop that one, or choose another folder with --data-dir", path)
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
	return filelock.Held(file)
}
