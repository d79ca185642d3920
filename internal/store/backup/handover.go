package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// sharedFiles are those files of the folder pki that the servers of one store
// share, keys before their certificates: that is the order in which they are
// written. Only one server needs the key of the root. Each server makes its own
// certificate and the administrator's.
var sharedFiles = []string{
	datadir.ServingCA + ".key", datadir.ServingCA + ".crt",
	datadir.ClientRootCA + ".crt",
	datadir.ClientCA + ".key", datadir.ClientCA + ".crt",
	datadir.ServiceAccountKey,
	datadir.EncryptionFile,
}

// ExportKeys writes the keys that another server on the same store needs into a
// new file, which only this user can read, and returns them.
func ExportKeys(file string, dir datadir.Dir, protection Protection, now time.Time) (storerecord.Keys, error) {
	if !protection.Encrypts() {
		return storerecord.Keys{}, errors.New("keys are exported encrypted only")
	}
	if err := checkFree(file); err != nil {
		return storerecord.Keys{}, err
	}
	all, err := readKeyFiles(dir.PKI())
	if err != nil {
		return storerecord.Keys{}, err
	}
	found, err := completeKeys(dir.PKI())
	if err != nil {
		return storerecord.Keys{}, err
	}
	summary := Summary{Saved: now.UTC(), Program: buildinfo.Read().Version, Keys: true, Record: storerecord.Record{Keys: found}}
	return found, createFile(file, func(dst *os.File) error {
		out, err := newWriter(dst, protection)
		if err != nil {
			return err
		}
		if err := out.addJSON(headerName, header{Form: form, Program: summary.Program, Saved: summary.Saved, KeysAlone: true}); err != nil {
			return err
		}
		for _, name := range sharedFiles {
			if key, ok := all[name]; ok {
				if err := out.add(pkiPrefix+name, key.mode, key.data); err != nil {
					return err
				}
			}
		}
		return out.close(summary)
	})
}

// completeKeys refuses a folder with which no server could start. The keys of
// encryption may be in another place.
func completeKeys(pki string) (storerecord.Keys, error) {
	found, err := storerecord.ReadPKI(pki)
	if err != nil {
		return storerecord.Keys{}, err
	}
	missing := found.WithoutEncryption().Missing()
	for _, name := range []string{datadir.ClientCA + ".key", datadir.ClientCA + ".crt", datadir.ServingCA + ".key"} {
		if _, err := os.Stat(filepath.Join(pki, name)); err != nil {
			missing = append(missing, name+" is missing")
		}
	}
	if len(missing) > 0 {
		return storerecord.Keys{}, fmt.Errorf("the keys are not complete: %s", strings.Join(missing, "; "))
	}
	return found, checkPairs(pki)
}

// Imported is what ImportKeys has done.
type Imported struct {
	Keys storerecord.Keys
	// Changed are the files that were written.
	Changed []string
	// Running reports that a server runs on the folder.
	Running bool
}

// ImportKeys puts the keys in a file into the folder pki of dir, which it creates. Existing
// keys must fit: a file of the same servers brings renewed or rotated keys. A server does
// not start before ImportKeys has finished. It can be repeated.
func ImportKeys(file string, dir datadir.Dir, protection Protection) (Imported, error) {
	if err := dir.Prepare(); err != nil {
		return Imported{}, err
	}
	lock, err := dir.TakeLock()
	running := errors.Is(err, datadir.ErrInUse)
	if err != nil && !running {
		return Imported{}, err
	}
	if !running {
		defer lock.Close()
	}
	temp, err := os.MkdirTemp(string(dir), ".check-*") // with mode 0700
	if err != nil {
		return Imported{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(temp)
	imported := Imported{Running: running}
	if err := unpackKeys(file, temp, protection); err != nil {
		return Imported{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if imported.Keys, err = completeKeys(temp); err != nil {
		return Imported{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if err := checkFits(dir, imported); err != nil {
		return Imported{}, err
	}
	files, err := readKeyFiles(temp)
	if err != nil {
		return Imported{}, err
	}
	imported.Changed, err = installKeys(dir, files)
	return imported, err
}

// unpackKeys writes what servers share into a folder. A backup contains it too.
func unpackKeys(file, dir string, protection Protection) error {
	src, err := os.Open(file)
	if err != nil {
		return err
	}
	defer src.Close()
	archive, err := protection.open(bufio.NewReaderSize(src, 1<<16))
	if err != nil {
		return err
	}
	summary, err := readMembers(archive, func(name string, mode fs.FileMode, data io.Reader) error {
		if name == headerName {
			_, err := readHeader(data)
			return err
		}
		for _, shared := range sharedFiles {
			if name == pkiPrefix+shared {
				text, err := readSmall(data)
				if err != nil {
					return err
				}
				return keyFile{mode, text}.write(dir, shared)
			}
		}
		return nil
	})
	if err == nil && !summary.Keys {
		err = errors.New("it has no keys")
	}
	return err
}

// checkFits refuses to replace keys with those of other servers. Objects that
// this server has encrypted must stay readable. If it is stopped, its next
// start checks whether they are.
func checkFits(dir datadir.Dir, imported Imported) error {
	existing, err := storerecord.Read(dir)
	if err != nil {
		return err
	}
	err = existing.Check(imported.Keys)
	var mismatch *storerecord.MismatchError
	if !errors.As(err, &mismatch) || mismatch.EncryptionOnly && !imported.Running {
		return err
	}
	return fmt.Errorf("%s has the keys of another server: %w. Import into a new folder, or move this one away if it is of no use", dir.PKI(), mismatch)
}

// installKeys writes the files that differ, and makes them belong to the owner
// of the data directory: the server, which may run as another user.
func installKeys(dir datadir.Dir, files keyFiles) (changed []string, err error) {
	if err := os.MkdirAll(dir.PKI(), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of keys: %w", err)
	}
	present, err := readKeyFiles(dir.PKI())
	if err != nil {
		return nil, err
	}
	for _, name := range sharedFiles {
		file, ok := files[name]
		if !ok || string(present[name].data) == string(file.data) {
			continue
		}
		if err := file.write(dir.PKI(), name); err != nil {
			return changed, err
		}
		changed = append(changed, name)
	}
	return changed, errors.Join(leaveTo(dir, changed), atomicfile.SyncDir(dir.PKI()))
}

func leaveTo(dir datadir.Dir, names []string) error {
	info, err := os.Stat(string(dir))
	if err != nil {
		return fmt.Errorf("looking at the data directory: %w", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	paths := []string{dir.PKI(), dir.Lock()}
	for _, name := range names {
		paths = append(paths, filepath.Join(dir.PKI(), name))
	}
	for _, path := range paths {
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("giving the keys to the owner of the data directory: %w", err)
		}
	}
	return nil
}

// checkFree returns an error if the file exists already.
func checkFree(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s exists: choose another name, or of backups name a folder to get a new file in it each time", file)
	}
	return nil
}

// createFile writes a new file with mode 0600. It leaves a complete file or
// none.
func createFile(file string, write func(*os.File) error) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".backup-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("making the file: %w", err)
	}
	defer os.Remove(temp.Name())
	if err := errors.Join(write(temp), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), file); err != nil { // which does not replace anything
		return fmt.Errorf("making the file: %w", err)
	}
	return atomicfile.SyncDir(filepath.Dir(file))
}
