// Package volume keeps the files of a projected volume in a folder: a reader
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

	"github.com/certplane/certplane/internal/atomicfile"
)

const (
	// dataName is the link to the folder with the present state.
	dataName = "..data"
	// nextName is what dataName is renamed from.
	nextName = "..data_tmp"
)

// Own, as a user or group, is that of the process.
const Own = -1

// File is a file of a volume.
type File struct {
	Data []byte
	// Mode has permission bits only.
	Mode fs.FileMode
	// UID and GID own the file. Own is the process itself.
	UID, GID int
}

// Files are all files of a volume by their path, which has slashes and is
// relative to the volume's folder.
type Files map[string]File

// Change tells what Write did.
type Change int

// What Write can have done.
const (
	// None: all was as it should be.
	None Change = iota
	// Repaired: contents were right; a mode, an owner or a link was not.
	Repaired
	// Replaced: there are new contents.
	Replaced
)

// Write makes the folder dir show files and nothing else of its own making.
// It writes nothing if that is so already. What it replaces is on disk until
// it is called again. An error leaves the former state
// visible. Concurrent writers of one folder disturb each other.
func Write(dir string, files Files, now time.Time) (Change, error) {
	if err := checkPaths(files); err != nil {
		return None, err
	}
	if err := MakeDir(dir); err != nil {
		return None, err
	}
	// Whoever has just followed the link shall find what is behind it: the
	// former state stays until the next call.
	former, _ := os.Readlink(filepath.Join(dir, dataName))
	change := compare(dir, files)
	if change != None {
		if err := replace(dir, files, now); err != nil {
			return None, fmt.Errorf("writing volume %s: %w", dir, err)
		}
	}
	linked, err := link(dir, files)
	if err != nil {
		return change, fmt.Errorf("writing volume %s: %w", dir, err)
	}
	if linked && change == None {
		change = Repaired
	}
	present, err := os.Readlink(filepath.Join(dir, dataName))
	if err != nil {
		return change, fmt.Errorf("writing volume %s: %w", dir, err)
	}
	return change, removeStale(dir, files, present, former)
}

// Load returns the present files of the folder dir; none if there is no such
// folder.
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

// Remove deletes the volume's folder. That it is not there is fine.
func Remove(dir string) error {
	// What vanishes first is the name that everybody reads through.
	err := os.Remove(filepath.Join(dir, dataName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// compare says what has to be done to the present state. Not to know it is a
// reason to write.
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

// list returns the paths of all that is no folder below root.
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

// create writes a file that nobody else can open before it has its owner and
// its mode.
func create(path string, file File) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	return errors.Join(err, own(f, file), f.Chmod(file.Mode.Perm()), f.Sync(), f.Close())
}

// MakeDir makes a folder and its parents, which others may enter whatever the
// umask: what is secret is so by the mode of its file.
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

// point makes or changes a link in one step.
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

// link makes the names in the volume links to its present state, and tells
// whether there was anything to do.
func link(dir string, files Files) (bool, error) {
	changed := false
	for _, name := range slices.Sorted(maps.Keys(tops(files))) {
		full, target := filepath.Join(dir, name), filepath.Join(dataName, name)
		info, err := os.Lstat(full)
		if err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return changed, fmt.Errorf("%s is in the way: it is not one of the volume's links", full)
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

// removeStale removes links to what is not there any more, and the folders of
// other states than those that stay: of former ones, and of writers that did
// not come to an end.
func removeStale(dir string, files Files, stay ...string) error {
	wanted := tops(files)
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

// tops are the names that the volume's folder shows.
func tops(files Files) map[string]bool {
	names := map[string]bool{}
	for name := range files {
		top, _, _ := strings.Cut(path.Clean(name), "/")
		names[top] = true
	}
	return names
}
