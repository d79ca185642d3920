// Package safepath opens files and determines the users who could have chosen their
// content: the owners of the file and of all folders and links on its path.
package safepath

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Rule sets which users and groups are trusted, in addition to root and the user of this
// process.
type Rule struct {
	// PrivateGroup permits write access for the group with the same number as the user of
	// this process: many systems create such a group for each user, without other members.
	// It does not apply to root.
	PrivateGroup bool
}

// Stranger is a user who can change the target of a path, other than root and the user of
// this process.
type Stranger struct {
	UID uint32
	// Path is the file, folder or link that belongs to this user.
	Path string
}

// maxLinks is the maximum number of links in a path, as in Linux.
const maxLinks = 40

// Read returns the content of the regular file at path, and the strangers who could have
// chosen it. It does not wait for the writer of a named pipe. It returns an error if a
// group or all users can write to the file or to a folder on the path, except folders in
// which users cannot replace each other's files, such as /tmp.
func (r Rule) Read(path string, limit int64) ([]byte, []Stranger, error) {
	w, err := r.walk(path)
	if err != nil {
		return nil, nil, err
	}
	// If the file belongs to a stranger, it may have been replaced since it was
	// checked. So the open file is checked as well.
	file, err := os.OpenFile(w.path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := w.recordOwner(w.path, info); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, w.strangers, err
}

// Dir returns the folder to which path leads, without links, and the strangers who could
// have chosen its content.
func (r Rule) Dir(path string) (string, []Stranger, error) {
	w, err := r.walk(path)
	return w.path, w.strangers, err
}

// walk is a walk through the file system. Only the recorded users can change its target,
// because each step is checked before the next one.
type walk struct {
	rule      Rule
	path      string
	strangers []Stranger
}

func (r Rule) walk(path string) (*walk, error) {
	w := &walk{rule: r, path: "/"}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return w, err
	}
	left, links := names(absolute), 0
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		if name == ".." { // in a link: its parent folders have been checked
			w.path = filepath.Dir(w.path)
			continue
		}
		next := filepath.Join(w.path, name)
		info, err := os.Lstat(next)
		if err != nil {
			return w, err
		}
		if err := w.recordOwner(next, info); err != nil {
			return w, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			w.path = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return w, err
		}
		if links++; links > maxLinks {
			return w, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			w.path = "/"
		}
		left = slices.Concat(names(target), left)
	}
	return w, nil
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// recordOwner records the owner of a file, folder or link.
func (w *walk) recordOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the owners of files are not known on this system")
	}
	if w.othersWrite(info, stat.Gid) {
		return fmt.Errorf("users other than its owner can write to %s (mode %#o): remove that right with 'chmod go-w'", path, info.Mode().Perm())
	}
	known := func(s Stranger) bool { return s.UID == stat.Uid }
	if stat.Uid != 0 && int(stat.Uid) != os.Geteuid() && !slices.ContainsFunc(w.strangers, known) {
		w.strangers = append(w.strangers, Stranger{UID: stat.Uid, Path: path})
	}
	return nil
}

// othersWrite reports whether users other than the owner can change the file or folder. The
// mode of a link is ignored.
func (w *walk) othersWrite(info fs.FileInfo, group uint32) bool {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0, mode.IsDir() && mode&fs.ModeSticky != 0:
		return false
	case mode.Perm()&0o002 != 0:
		return true
	}
	user := os.Geteuid()
	private := w.rule.PrivateGroup && user != 0 && int(group) == user
	return mode.Perm()&0o020 != 0 && !private
}
