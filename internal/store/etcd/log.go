package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// checkLog refuses a member's folder that has a database but no write-ahead log: an
// incomplete copy, or a snapshot that was put there. etcd would begin a new log next to it
// and wait for a leader indefinitely.
func checkLog(member string) error {
	database := filepath.Join(member, "snap", "db")
	if found, err := filepath.Glob(database); err != nil || len(found) == 0 {
		return err
	}
	log := filepath.Join(member, "wal")
	there := false
	err := filepath.WalkDir(log, func(path string, entry fs.DirEntry, err error) error {
		there = there || err == nil && strings.HasSuffix(path, ".wal")
		return err
	})
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking for the write-ahead log of the store: %w", err)
	case !there:
		return fmt.Errorf("%s exists, but %s contains no write-ahead log: this is a partial copy or a snapshot of etcd, not a store. "+
			`Copy the whole folder of a stopped server, or make a store from a backup with "certplane backup restore"`, database, log)
	}
	return nil
}
