package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/store/sealed"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// Saving is one call of Save.
type Saving struct {
	Source     Source
	Protection Protection
	// WithoutKeys leaves the folder pki out.
	WithoutKeys bool
	// Now is the time that is recorded in the file.
	Now time.Time
}

// attempts is how often a backup is tried because keys changed during it, or because the
// store compacted the revision that was being read.
const attempts = 5

// errChanged reports that a backup must be started again.
var errChanged = errors.New("the keys or the store changed while they were saved")

// Save writes the store and the keys of a server into a new file, which only
// this user can read. It leaves a complete file or none.
func Save(ctx context.Context, file string, saving Saving) (Summary, error) {
	if !saving.WithoutKeys && !saving.Protection.Encrypts() {
		return Summary{}, errors.New("keys are saved encrypted only")
	}
	if err := checkFree(file); err != nil {
		return Summary{}, err
	}
	client, close, err := saving.Source.open(ctx)
	if err != nil {
		return Summary{}, err
	}
	defer close()
	var summary Summary
	err = createFile(file, func(dst *os.File) (err error) {
		summary, err = saving.write(ctx, client, dst)
		return err
	})
	return summary, err
}

func (s Saving) write(ctx context.Context, client *clientv3.Client, file *os.File) (Summary, error) {
	var err error
	for range attempts {
		if _, err = file.Seek(0, io.SeekStart); err != nil {
			break
		}
		if err = file.Truncate(0); err != nil {
			break
		}
		var summary Summary
		summary, err = s.attempt(ctx, client, file)
		if !errors.Is(err, errChanged) {
			return summary, err
		}
	}
	return Summary{}, fmt.Errorf("saving: %w; try again", err)
}

// attempt writes only keys that were the same before and after the store was
// read: they are then those of that moment.
func (s Saving) attempt(ctx context.Context, client *clientv3.Client, dst io.Writer) (Summary, error) {
	keys, err := s.readKeys()
	if err != nil {
		return Summary{}, err
	}
	out, err := newWriter(dst, s.Protection)
	if err != nil {
		return Summary{}, err
	}
	reading := &reading{
		client: client, prefix: s.Source.Prefix, out: out,
		summary: Summary{Saved: s.Now.UTC(), Program: buildinfo.Read().Version, Objects: map[string]int{}, Keys: keys != nil, Leases: map[int64]int64{}},
	}
	if err := reading.run(ctx); err != nil {
		return Summary{}, err
	}
	after, err := s.readKeys()
	if err != nil {
		return Summary{}, err
	}
	if !keys.equal(after) {
		return Summary{}, errChanged
	}
	if keys != nil {
		if err := s.checkKeys(&reading.summary.Record); err != nil {
			return Summary{}, err
		}
	}
	for name, file := range keys {
		if err := out.add(pkiPrefix+name, file.mode, file.data); err != nil {
			return Summary{}, err
		}
	}
	return reading.summary, out.close(reading.summary)
}

func (s Saving) readKeys() (keyFiles, error) {
	if s.WithoutKeys {
		return nil, nil
	}
	return readKeyFiles(s.Source.Dir.PKI())
}

// checkKeys refuses keys that do not belong to the store, such as those of another data
// directory. The encryption keys may have changed since they were recorded. A store of an
// older version has no record; it gets one with the keys found.
func (s Saving) checkKeys(record *storerecord.Record) error {
	found, err := storerecord.Read(s.Source.Dir)
	if err != nil {
		return err
	}
	if record.Format == 0 {
		*record = storerecord.Record{Format: storerecord.FormatFirst, ID: "without a record", Keys: found}
		return nil
	}
	if err := record.Keys.Check(found.WithoutEncryption()); err != nil {
		return fmt.Errorf("%s does not belong to the store: %w", s.Source.Dir.PKI(), err)
	}
	return nil
}

// pageKeys is how many keys are read at once. Each can have 1.5 MiB.
const pageKeys = 32

// eachPage reads the keys below a prefix at one revision, 0 for the latest one, page by page.
func eachPage(ctx context.Context, kv clientv3.KV, prefix string, revision int64, visit func(*clientv3.GetResponse) error) error {
	from, end := prefix+"/", clientv3.GetPrefixRangeEnd(prefix+"/")
	for {
		page, err := kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageKeys), clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		revision = page.Header.Revision
		if err := visit(page); err != nil || !page.More {
			return err
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// reading reads a store at one revision.
type reading struct {
	client  *clientv3.Client
	prefix  string
	out     *writer
	summary Summary
}

func (r *reading) run(ctx context.Context) error {
	store := storerecord.Store{KV: r.client, Prefix: r.prefix}
	page := 0
	err := eachPage(ctx, r.client, r.prefix, 0, func(answer *clientv3.GetResponse) error {
		if page++; page == 1 {
			if err := r.begin(answer.Header.Revision); err != nil {
				return err
			}
		}
		for _, kv := range answer.Kvs {
			if err := r.count(ctx, strings.TrimPrefix(string(kv.Key), r.prefix), kv.Value, kv.Lease, store); err != nil {
				return err
			}
		}
		data, err := encodePage(answer.Kvs)
		if err != nil {
			return err
		}
		return r.out.add(fmt.Sprintf("%s%06d", storePrefix, page), 0o600, data)
	})
	if errors.Is(err, rpctypes.ErrCompacted) {
		return errChanged
	}
	if err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	if len(r.summary.Objects) == 0 {
		return fmt.Errorf("the store has no objects below %s: check that --etcd-prefix equals the server's prefix", r.prefix)
	}
	return nil
}

func (r *reading) begin(revision int64) error {
	r.summary.Revision = revision
	return r.out.addJSON(headerName, header{
		Form: form, Program: r.summary.Program, Saved: r.summary.Saved, Prefix: r.prefix, Revision: revision,
	})
}

// count adds a key to the summary.
func (r *reading) count(ctx context.Context, key string, value []byte, leaseID int64, store storerecord.Store) error {
	if r.prefix+key == store.Key() {
		record, err := storerecord.Parse(value)
		if err != nil {
			return err
		}
		r.summary.Record = *record
	}
	r.summary.add(key, value)
	if _, known := r.summary.Leases[leaseID]; leaseID == 0 || known {
		return nil
	}
	lease, err := r.client.TimeToLive(ctx, clientv3.LeaseID(leaseID))
	if err != nil {
		return fmt.Errorf("reading a lease: %w", err)
	}
	if lease.GrantedTTL > 0 { // otherwise it has just expired
		r.summary.Leases[leaseID] = lease.GrantedTTL
	} else {
		r.summary.Leases[leaseID] = 1
	}
	return nil
}

// add counts an object.
func (s *Summary) add(key string, value []byte) {
	if resource := resourceOf(key); resource != "" {
		s.Objects[resource]++
		if sealed.Is(value) {
			s.Encrypted++
		}
	}
}

// The names of files in a folder of backups sort by time.
const (
	filePrefix = "certplane-"
	fileSuffix = ".backup"
	fileTime   = "20060102T150405Z"
)

// FileIn returns the path of a new backup in a folder.
func FileIn(dir string, now time.Time) string {
	return filepath.Join(dir, filePrefix+now.UTC().Format(fileTime)+fileSuffix)
}

// Newest returns when the newest backup that FileIn has named in dir was made; the zero time
// if there is none.
func Newest(dir string) (time.Time, error) {
	files, err := backupsIn(dir)
	if err != nil || len(files) == 0 {
		return time.Time{}, err
	}
	return madeAt(filepath.Base(files[len(files)-1]))
}

// madeAt returns the time in a name of FileIn.
func madeAt(name string) (time.Time, error) {
	stamp, ours := strings.CutPrefix(name, filePrefix)
	stamp, named := strings.CutSuffix(stamp, fileSuffix)
	if !ours || !named {
		return time.Time{}, fmt.Errorf("%s is not named like a backup", name)
	}
	return time.Parse(fileTime, stamp)
}

// backupsIn returns the backups that FileIn has named in dir, the oldest first.
func backupsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("looking for backups: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if _, err := madeAt(entry.Name()); err == nil && entry.Type().IsRegular() {
			files = append(files, filepath.Join(dir, entry.Name()))
		}
	}
	return files, nil
}

// Prune removes all but the newest backups that FileIn has named in dir, and returns the
// removed files. It keeps other files.
func Prune(dir string, keep int) ([]string, error) {
	files, err := backupsIn(dir)
	if err != nil {
		return nil, err
	}
	if len(files) <= keep {
		return nil, nil
	}
	old := slices.Clip(files[:len(files)-keep])
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return nil, fmt.Errorf("removing an old backup: %w", err)
		}
	}
	return old, nil
}

func readHeader(data io.Reader) (header, error) {
	head := header{}
	text, err := readSmall(data)
	if err != nil {
		return header{}, err
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return header{}, damage(err)
	}
	if head.Form > form {
		return header{}, fmt.Errorf("the backup is of form %d, written by certplane %s, and this program supports forms up to %d: use that version or a newer one", head.Form, head.Program, form)
	}
	return head, nil
}
