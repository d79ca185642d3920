package server

import (
	"os"

	"github.com/certplane/certplane/internal/datadir"
)

// lockDataDir makes dir and takes it for this process, unless it is somebody
// else's. The returned file holds the lock until it is closed or the process
// ends, however it ends.
func lockDataDir(dir datadir.Dir) (*os.File, error) {
	if err := dir.Prepare(); err != nil {
		return nil, err
	}
	return dir.TakeLock()
}
