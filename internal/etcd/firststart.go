package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/atomicfile"
)

// firstStart watches over the first start of a member on an empty folder.
// etcd cannot go on from a first start that was cut short: the log is there,
// the member's own entry is not, and so it waits for a leader forever. What
// such a start has left was never used by anybody and can be recreated.
type firstStart struct {
	dir string
}

// begin clears away a first start that did not get ready, and notes that one
// begins if there is no data.
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

// done notes that the member is ready. From here on data is kept at all costs.
func (f firstStart) done() error {
	if err := os.Remove(f.marker()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending the first start of etcd: %w", err)
	}
	return atomicfile.SyncDir(f.dir)
}

func (f firstStart) marker() string { return filepath.Join(f.dir, "first-start") }

// member is the folder in which etcd keeps its data.
func (f firstStart) member() string { return filepath.Join(f.dir, "member") }
