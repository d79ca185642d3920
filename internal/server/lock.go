package server

import (
	"os"

	"github.com/certplane/certplane/internal/datadir"
)

// lockDataDir makes dir and locks it for this process, unless it belongs to
// another user or program. The returned file holds the lock until it is closed
// or the process ends, even by a crash.
func lockDataDir(dir datadir.Dir) (*os.File, error) {
	if err := dir.Prepare(); err != nil {
		return nil, err
	}
	return dir.TakeLock()
}
