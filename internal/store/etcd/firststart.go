package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// firstStart watches over the first start of a member on an empty folder. etcd
// cannot continue a first start that was interrupted: the log exists, but the
// member's own entry does not, and so etcd waits for a leader forever. No
// client has ever used the data of such a start, so it can be recreated.
type firstStart struct {
	dir string
}

// begin removes the data of an interrupted first start. If there is no data, it records that
// a first start has begun.
func (f firstStart) begin() error {
	_, err := os.Stat(f.marker())
	interrupted := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for a first start of etcd: %w", err)
	}
	if interrupted {
		if err := os.RemoveAll(f.member()); err != nil {
			return fmt.Errorf("clearing an interrupted first start of etcd: %w", err)
		}
		return nil
	}
	if _, err := os.Stat(f.member()); err == nil {
		return nil // the usual case: there is data
	}
	note := []byte("The first start of etcd is under way; this file goes away when it is ready.\n")
	return atomicfile.Write(f.marker(), note, 0o600)
}

// done records that the member is ready. From here on its data is never
// removed.
func (f firstStart) done() error {
	if err := os.Remove(f.marker()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending the first start of etcd: %w", err)
	}
	return atomicfile.SyncDir(f.dir)
}

func (f firstStart) marker() string { return filepath.Join(f.dir, "first-start") }

// member is the folder in which etcd keeps its data.
func (f firstStart) member() string { return filepath.Join(f.dir, "member") }
