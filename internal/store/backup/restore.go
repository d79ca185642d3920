package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/sealed"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// Restoring is one call of Restore or Verify.
type Restoring struct {
	Protection Protection
	// PKI is a folder with the keys, for a file that has none.
	PKI string
	// Now is the time of the restore.
	Now time.Time
}

// Revisions must be new to all clients that have seen the store before the
// restore, or former restores of the same backup: the store begins this much
// later, and more for each second since the backup.
const (
	revisionsAhead     = 1_000_000_000
	revisionsPerSecond = 100_000
)

// Restore makes a data directory of a backup. The folder must not exist or must
// be empty. Restore leaves a complete folder or none.
func Restore(ctx context.Context, file string, dir datadir.Dir, restoring Restoring) (Summary, error) {
	if err := checkNew(string(dir)); err != nil {
		return Summary{}, err
	}
	parent := filepath.Dir(filepath.Clean(string(dir)))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return Summary{}, fmt.Errorf("making the folder above the data directory: %w", err)
	}
	temp, err := os.MkdirTemp(parent, ".restoring-*") // with mode 0700
	if err != nil {
		return Summary{}, fmt.Errorf("making the data directory: %w", err)
	}
	defer os.RemoveAll(temp)
	summary, err := restoring.into(ctx, file, datadir.Dir(temp))
	if err != nil {
		return Summary{}, err
	}
	if err := os.WriteFile(datadir.Dir(temp).Restored(), []byte(summary.Saved.UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		return Summary{}, fmt.Errorf("noting the restore: %w", err)
	}
	if err := os.Remove(string(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return Summary{}, fmt.Errorf("replacing the empty folder %s: %w; name a new folder in it", dir, err)
	}
	if err := os.Rename(temp, string(dir)); err != nil {
		return Summary{}, fmt.Errorf("making the data directory: %w", err)
	}
	return summary, atomicfile.SyncDir(parent)
}

func checkNew(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at the data directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: a backup is restored into a new folder; move the old one away, or name another with --data-dir", dir)
	}
	return nil
}

// Verify proves that a backup can be restored: it restores the backup into a new folder
// below temp, and removes that folder afterwards.
func Verify(ctx context.Context, file, temp string, restoring Restoring) (Summary, error) {
	dir, err := os.MkdirTemp(temp, "certplane-verify-*") // with mode 0700
	if err != nil {
		return Summary{}, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir)
	return restoring.into(ctx, file, datadir.Dir(dir))
}

// into fills a folder and then checks its content.
func (r Restoring) into(ctx context.Context, file string, dir datadir.Dir) (Summary, error) {
	src, err := os.Open(file)
	if err != nil {
		return Summary{}, fmt.Errorf("opening the backup: %w", err)
	}
	defer src.Close()
	pages, err := os.Create(filepath.Join(string(dir), ".pages")) // the store cannot be made before the end is seen
	if err != nil {
		return Summary{}, fmt.Errorf("reading the backup: %w", err)
	}
	defer os.Remove(pages.Name())
	defer pages.Close()
	head, summary, err := r.unpack(src, dir, pages)
	if err != nil {
		return Summary{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if summary.Record.Format > storerecord.Format {
		return Summary{}, fmt.Errorf("%s has a store in format %d, written by certplane %s, and this program supports formats up to %d: use that version or a newer one",
			file, summary.Record.Format, summary.Program, storerecord.Format)
	}
	if err := r.addKeys(summary, dir); err != nil {
		return Summary{}, err
	}
	if err := r.makeStore(ctx, pages, head, summary, dir); err != nil {
		return Summary{}, err
	}
	return summary, check(ctx, head, summary, dir)
}

// unpack writes the keys into dir and the pages of the store one after another
// into pages.
func (r Restoring) unpack(src io.Reader, dir datadir.Dir, pages io.Writer) (head header, summary Summary, err error) {
	archive, err := r.Protection.open(bufio.NewReaderSize(src, 1<<16))
	if err != nil {
		return header{}, Summary{}, err
	}
	summary, err = readMembers(archive, func(name string, mode fs.FileMode, data io.Reader) error {
		switch key, isKey := strings.CutPrefix(name, pkiPrefix); {
		case name == headerName:
			head, err = readHeader(data)
			if err == nil && head.KeysAlone {
				err = errors.New("it contains only keys: 'certplane pki import' brings them to another server")
			}
			return err
		case head.Form == 0:
			return ErrNoBackup
		case strings.HasPrefix(name, storePrefix):
			return copyPage(pages, data)
		case isKey:
			text, err := readSmall(data)
			if err != nil {
				return err
			}
			return keyFile{mode, text}.write(dir.PKI(), key)
		default:
			return fmt.Errorf("%w: %q is not a valid member", errDamaged, name)
		}
	})
	return head, summary, err
}

func copyPage(pages io.Writer, data io.Reader) error {
	_, err := io.Copy(pages, data)
	var ofFile *fs.PathError
	switch {
	case errors.As(err, &ofFile):
		return fmt.Errorf("writing the pages of the store: %w", err)
	case err != nil:
		return damage(err)
	}
	return nil
}

// addKeys makes sure that the keys are in the folder and fit the store.
func (r Restoring) addKeys(summary Summary, dir datadir.Dir) error {
	switch {
	case !summary.Keys && r.PKI == "":
		return errors.New("the backup has no keys: name the separately stored folder pki with --pki")
	case !summary.Keys:
		files, err := readKeyFiles(r.PKI)
		if err != nil {
			return err
		}
		for name, file := range files {
			if err := file.write(dir.PKI(), name); err != nil {
				return err
			}
		}
	case r.PKI != "":
		return errors.New("the backup has keys: omit --pki")
	}
	found, err := storerecord.Read(dir)
	if err != nil {
		return err
	}
	if err := summary.Record.Keys.Check(found.WithoutEncryption()); err != nil {
		return fmt.Errorf("the keys do not belong to the store: %w", err)
	}
	return checkPairs(dir.PKI())
}

func (r Restoring) makeStore(ctx context.Context, pages *os.File, head header, summary Summary, dir datadir.Dir) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	elapsed := max(0, int64(r.Now.Sub(head.Saved).Seconds()))
	if _, err := pages.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pages of the store: %w", err)
	}
	return etcd.Make(ctx, dir.Etcd(), etcd.Content{
		Revision: head.Revision + revisionsAhead + elapsed*revisionsPerSecond,
		Leases:   summary.Leases,
		Keys:     func(put func(*mvccpb.KeyValue) error) error { return decodePages(bufio.NewReader(pages), put) },
	})
}

// check opens the new store and compares it with the summary of the backup.
func check(ctx context.Context, head header, summary Summary, dir datadir.Dir) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	store, err := etcd.Start(ctx, etcd.Config{Dir: dir.Etcd()})
	if err != nil {
		return err
	}
	defer store.Stop()
	client := store.Connect()
	defer client.Close()
	keys, err := loadSealed(ctx, dir)
	if err != nil {
		return err
	}
	found, unreadable := Summary{Objects: map[string]int{}}, 0
	err = eachPage(ctx, client, head.Prefix, 0, func(page *clientv3.GetResponse) error {
		for _, kv := range page.Kvs {
			key := strings.TrimPrefix(string(kv.Key), head.Prefix)
			found.add(key, kv.Value)
			if _, err := keys.Open(ctx, string(kv.Key), kv.Value); resourceOf(key) != "" && err != nil {
				unreadable++
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the restored store: %w", err)
	}
	if err := summary.differs(found); err != nil {
		return fmt.Errorf("comparing the restored store with the backup: %w", err)
	}
	if unreadable > 0 && len(summary.Record.Keys.Encryption) > 0 {
		return fmt.Errorf("%d of %d encrypted values cannot be read with the keys in pki/encryption.yaml", unreadable, summary.Encrypted)
	}
	return nil
}

// loadSealed returns no keys if the server's configuration names them: they are
// not part of a backup.
func loadSealed(ctx context.Context, dir datadir.Dir) (sealed.Keys, error) {
	if _, err := os.Stat(dir.EncryptionKeys()); errors.Is(err, fs.ErrNotExist) {
		return sealed.Keys{}, nil
	}
	return sealed.Load(ctx, dir.EncryptionKeys())
}
