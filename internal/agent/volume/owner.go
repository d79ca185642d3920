package volume

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// setOwner sets the owner of the file. Only root can change owners, so setOwner returns
// early if the owner is already right.
func setOwner(f *os.File, file File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if ownedAs(info, file) {
		return nil
	}
	if err := f.Chown(file.UID, file.GID); err != nil {
		return fmt.Errorf("giving the file to user %d, group %d: %w", file.UID, file.GID, atomicfile.Cause(err))
	}
	return nil
}

// hasMetadata reports whether the file at path has the wanted mode and owner.
func hasMetadata(path string, file File) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm() == file.Mode.Perm() && ownedAs(info, file)
}

func ownedAs(info fs.FileInfo, file File) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	uid, gid := file.UID, file.GID
	if uid == Own {
		uid = os.Geteuid()
	}
	// New files can inherit the group of their folder (setgid), so any group is
	// accepted unless one is requested.
	return int(stat.Uid) == uid && (gid == Own || int(stat.Gid) == gid)
}

// load reads a file with its mode and owner.
func load(path string) (File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return File{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	return File{Data: data, Mode: info.Mode().Perm(), UID: int(stat.Uid), GID: int(stat.Gid)}, err
}
