// Package atomicfile writes files so that readers see either the old or the complete new
// content.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path with data. A reader sees the old file or the
// new one, never a part of it, also after a crash. The data is on disk when
// Write returns without error.
func Write(path string, data []byte, perm fs.FileMode) error {
	return place(path, data, perm, os.Rename)
}

// Create is Write for a file that must not exist yet: if it does, Create
// leaves it alone and its error matches fs.ErrExist.
func Create(path string, data []byte, perm fs.FileMode) error {
	return place(path, data, perm, os.Link)
}

// CheckDir returns an error if files cannot be made in dir, before anything
// depends on it.
func CheckDir(dir string) error {
	tmp, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return fmt.Errorf("checking that files can be written: %w", err)
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// place writes a complete file next to path and then moves it there.
func place(path string, data []byte, perm fs.FileMode, move func(from, to string) error) error {
	dir := filepath.Dir(path)
	// Same folder: a rename is atomic only within one file system.
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, Cause(err))
	}
	defer os.Remove(tmp.Name()) // has no effect after a rename
	if err := fill(tmp, data, perm); err != nil {
		return fmt.Errorf("writing %s: %w", path, Cause(err))
	}
	if err := move(tmp.Name(), path); err != nil {
		return fmt.Errorf("writing %s: %w", path, Cause(err))
	}
	return SyncDir(dir)
}

// Cause returns why an operation on a file failed, without the name of the file. With the
// name of a temporary file, each attempt would fail with another message.
func Cause(err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	if of := (*os.LinkError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// fill closes f also if it fails.
func fill(f *os.File, data []byte, perm fs.FileMode) error {
	_, err := f.Write(data)
	return errors.Join(err, f.Chmod(perm), f.Sync(), f.Close())
}

// SyncDir makes changes to the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
