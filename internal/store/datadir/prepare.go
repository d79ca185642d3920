package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The names of a server's files in its data directory. A server may use a folder that
// contains only these.
const (
	adminKubeconfigName = "admin.kubeconfig"
	etcdName            = "etcd"
	lockName            = "lock"
	pkiName             = "pki"
	restoredName        = "restored"
)

// lostAndFound is in the root of a file system and belongs to that file system.
const lostAndFound = "lost+found"

// The permissions of other users on a folder: any permission, and that to
// replace the server's files with their own.
const (
	othersAny   fs.FileMode = 0o077
	othersWrite fs.FileMode = 0o022
)

// Prepare makes the data directory, or checks that an existing one may be used: it must be
// empty or belong to a server, and no other user may be able to write to it. Prepare closes
// an existing folder to other users if it contains only the server's files and belongs to
// this user. The mode of any other folder does not change.
func (d Dir) Prepare() error {
	info, err := os.Stat(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(string(d), 0o700); err != nil {
			return fmt.Errorf("making the data directory: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the data directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("data directory %s is a file: choose a folder with --data-dir", d)
	}
	shared, err := d.checkOwn()
	if err != nil {
		return err
	}
	if err := d.closeToOthers(info, shared); err != nil {
		return err
	}
	return d.closeInside()
}

// checkOwn refuses a folder with files that do not belong to a server. It accepts a folder
// in which servers already keep files next to other files: it is shared.
func (d Dir) checkOwn() (shared bool, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return false, fmt.Errorf("looking at the data directory: %w", err)
	}
	var foreign []string
	locked, keys := false, false
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == lockName && entry.Type().IsRegular():
			locked = true
		case name == pkiName:
			if keys, err = d.hasOwnKeys(); err != nil {
				return false, err
			}
			if !keys {
				foreign = append(foreign, name)
			}
		case !isOwnName(name):
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 || locked && keys {
		return len(foreign) > 0, nil
	}
	return false, fmt.Errorf("data directory %s has files that are not certplane's, such as %s: choose a new or an empty folder with --data-dir, for instance %s",
		d, firstNames(foreign), d.join("certplane"))
}

// isOwnName reports whether a server makes files of that name, also during a
// start that was interrupted.
func isOwnName(name string) bool {
	return slices.Contains([]string{adminKubeconfigName, etcdName, lockName, lostAndFound, restoredName}, name) ||
		strings.HasPrefix(name, "."+adminKubeconfigName+".") || strings.HasPrefix(name, ".check-")
}

// hasOwnKeys reports whether the folder pki belongs to a server or is empty. Other programs
// also use folders of that name.
func (d Dir) hasOwnKeys() (bool, error) {
	entries, err := os.ReadDir(d.PKI())
	if err != nil {
		return false, fmt.Errorf("looking at the data directory: %w", err)
	}
	own := func(entry fs.DirEntry) bool {
		name := strings.TrimPrefix(entry.Name(), ".") // of a file that was being written
		return slices.ContainsFunc([]string{ServingCA + ".", ClientRootCA + ".", ClientCA + ".", ServiceAccountKey, EncryptionFile}, func(own string) bool {
			return strings.HasPrefix(name, own)
		})
	}
	return len(entries) == 0 || slices.ContainsFunc(entries, own), nil
}

func firstNames(names []string) string {
	const shown = 3
	slices.Sort(names)
	if len(names) > shown {
		names = append(names[:shown:shown], "...")
	}
	return strings.Join(names, ", ")
}

func (d Dir) closeToOthers(info fs.FileInfo, shared bool) error {
	mode := info.Mode()
	own := int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
	switch {
	case mode.Perm()&othersAny == 0:
		return nil
	case own && !shared && mode&fs.ModeSticky == 0:
		if err := os.Chmod(string(d), mode.Perm()&^othersAny); err != nil {
			return fmt.Errorf("closing the data directory to other users: %w", err)
		}
		return nil
	case mode.Perm()&othersWrite != 0:
		return fmt.Errorf("other users can write to the data directory %s (%v), which is to hold private keys: choose a new folder with --data-dir, for instance %s",
			d, mode, d.join("certplane"))
	default:
		return nil // they can see the names of files, no keys
	}
}

// closeInside closes the server's own folders to other users again, in case
// they were opened.
func (d Dir) closeInside() error {
	for _, dir := range []string{d.PKI(), d.Etcd()} {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Perm()&othersAny == 0 {
			continue
		}
		if err == nil {
			err = os.Chmod(dir, 0o700)
		}
		if err != nil {
			return fmt.Errorf("closing %s to other users: %w", filepath.Base(dir), err)
		}
	}
	return nil
}
