// Package volume keeps the files of a projected volume in a folder. A reader
// sees all of one state or all of the next, never a mix.
//
// The layout is that of Kubernetes' volumes, which programs know how to watch:
// the files are in a folder of their own, "..data" is a symbolic link to it,
// and each name in the volume is a symbolic link into "..data". A new state is
// a new folder and one rename of "..data".
package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

const (
	// dataName is the link to the folder with the current state.
	dataName = "..data"
	// nextName is the temporary name of the link that is renamed to dataName.
	nextName = "..data_tmp"
)

// Own, as a user or group, means the user or group of the process.
const Own = -1

// File is a file of a volume.
type File struct {
	Data []byte
	// Mode has permission bits only.
	Mode fs.FileMode
	// UID and GID own the file. Own stands for the user or group of the
	// process.
	UID, GID int
}

// Files are all files of a volume by their path, which has slashes and is
// relative to the volume's folder.
type Files map[string]File

// Change is the result of Write.
type Change int

// The changes that Write can have made.
const (
	// None: everything was correct.
	None Change = iota
	// Repaired: the contents were correct; a mode or an owner was not.
	Repaired
	// Restored: the contents were correct; a link to them was not there.
	Restored
	// Replaced: the contents are new.
	Replaced
)

// Write makes the folder dir show files and no other files that Write has written. It does
// not write if the folder already does. The replaced state stays on disk until the next
// call. After an error the former state is still visible. Write is not safe for concurrent
// use on the same folder.
func Write(dir string, files Files, now time.Time) (Change, error) {
	if err := checkPaths(files); err != nil {
		return None, err
	}
	if err := MakeDir(dir); err != nil {
		return None, err
	}
	// A reader that has just followed the link must still find the files behind
	// it, so the former state stays until the next call.
	former, _ := os.Readlink(filepath.Join(dir, dataName))
	change := compare(dir, files)
	if change != None {
		if err := replace(dir, files, now); err != nil {
			return None, fmt.Errorf("writing volume %s: %w", dir, atomicfile.Cause(err))
		}
	}
	linked, err := link(dir, files)
	if err != nil {
		return change, fmt.Errorf("writing volume %s: %w", dir, err)
	}
	if linked {
		change = max(change, Restored)
	}
	present, err := os.Readlink(filepath.Join(dir, dataName))
	if err != nil {
		return change, fmt.Errorf("writing volume %s: %w", dir, err)
	}
	return change, removeStale(dir, files, present, former)
}

// Load returns the current files of the folder dir; none if the folder does not
// exist.
func Load(dir string) (Files, error) {
	data := filepath.Join(dir, dataName)
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return Files{}, nil
	}
	names, err := list(data)
	if err != nil {
		return nil, fmt.Errorf("reading volume %s: %w", dir, err)
	}
	files := Files{}
	for _, full := range names {
		name, err := filepath.Rel(data, full)
		if err != nil {
			return nil, fmt.Errorf("reading volume %s: %w", dir, err)
		}
		if files[filepath.ToSlash(name)], err = load(full); err != nil {
			return nil, fmt.Errorf("reading volume %s: %w", dir, err)
		}
	}
	return files, nil
}

// Remove deletes the volume's folder. It is not an error if the folder does not
// exist.
func Remove(dir string) error {
	// The link that all readers follow is removed first.
	err := os.Remove(filepath.Join(dir, dataName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// compare returns what has to be done to the current state. If the state cannot
// be read, it has to be written.
func compare(dir string, files Files) Change {
	data := filepath.Join(dir, dataName)
	found, err := list(data)
	if err != nil || len(found) != len(files) {
		return Replaced
	}
	change := None
	for name, file := range files {
		full := filepath.Join(data, filepath.FromSlash(name))
		content, err := os.ReadFile(full)
		if err != nil || !bytes.Equal(content, file.Data) {
			return Replaced
		}
		if !hasMetadata(full, file) {
			change = Repaired
		}
	}
	return change
}

// list returns the paths of everything below root that is not a folder.
func list(root string) ([]string, error) {
	var names []string
	// The trailing separator makes WalkDir follow the link.
	err := filepath.WalkDir(root+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

// replace writes a folder with files and moves "..data" to it.
func replace(dir string, files Files, now time.Time) error {
	next, err := os.MkdirTemp(dir, now.UTC().Format("..2006_01_02_15_04_05.*"))
	if err != nil {
		return err
	}
	if err := fill(next, files); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	if err := point(dir, dataName, filepath.Base(next)); err != nil {
		return errors.Join(err, os.RemoveAll(next))
	}
	return atomicfile.SyncDir(dir)
}

func fill(dir string, files Files) error {
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		full, file := filepath.Join(dir, filepath.FromSlash(name)), files[name]
		if err := MakeDir(filepath.Dir(full)); err != nil {
			return err
		}
		if err := create(full, file); err != nil {
			return err
		}
	}
	return nil
}

// create writes a file that no other user can open before it has its owner and
// its mode.
func create(path string, file File) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	return errors.Join(err, setOwner(f, file), f.Chmod(file.Mode.Perm()), f.Sync(), f.Close())
}

// MakeDir creates a folder and its parents, which other users may enter regardless of the
// umask: secret files are protected by their own mode.
func MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := MakeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// point creates or changes a link atomically.
func point(dir, name, target string) error {
	tmp := filepath.Join(dir, nextName)
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// link makes the names in the volume links to its current state, and reports
// whether it changed anything.
func link(dir string, files Files) (bool, error) {
	changed := false
	for _, name := range slices.Sorted(maps.Keys(topLevelNames(files))) {
		full, target := filepath.Join(dir, name), filepath.Join(dataName, name)
		info, err := os.Lstat(full)
		if err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return changed, fmt.Errorf("%s is in the way: it is not one of the volume's links; move it away", full)
		}
		if present, err := os.Readlink(full); err == nil && present == target {
			continue
		}
		if err := point(dir, name, target); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// removeStale removes links to files that no longer exist, and the folders of
// all states except those in stay: folders of former states, and of writers
// that did not finish.
func removeStale(dir string, files Files, stay ...string) error {
	wanted := topLevelNames(files)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cleaning volume %s: %w", dir, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case name == dataName || slices.Contains(stay, name) || wanted[name]:
		case strings.HasPrefix(name, ".."), isOurs(dir, name):
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return err
}

// isOurs reports whether a name is a link into the volume's state.
func isOurs(dir, name string) bool {
	target, err := os.Readlink(filepath.Join(dir, name))
	return err == nil && target == filepath.Join(dataName, name)
}

// topLevelNames returns the top-level names in the volume's folder.
func topLevelNames(files Files) map[string]bool {
	names := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(path.Clean(name), "/")
		names[top] = true
	}
	return names
}
