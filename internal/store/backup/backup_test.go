package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/storerecord"
)

var (
	saturday = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	sunday   = saturday.Add(24 * time.Hour)
)

// world is a stopped server's data directory, with the parts that backups use.
type world struct {
	dir datadir.Dir
	out string // a folder for files
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{dir: datadir.Dir(filepath.Join(t.TempDir(), "data")), out: t.TempDir()}
	if err := os.MkdirAll(w.dir.PKI(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{datadir.ClientRootCA, datadir.ServingCA} {
		writePair(t, w.dir.PKI(), name)
	}
	writePair(t, w.dir.PKI(), "service-account") // of which the key counts
	data, err := encryption.New().Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir.EncryptionKeys(), data)
	w.edit(t, func(client *clientv3.Client) {
		keys, err := storerecord.Read(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		records := storerecord.Store{KV: client, Prefix: "/registry"}
		if _, err := records.Change(t.Context(), func(*storerecord.Record) (storerecord.Record, error) {
			return storerecord.New(storerecord.Format, rand.Text(), keys), nil
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 * pageKeys / 2 { // more than a page
			put(t, client, fmt.Sprintf("/registry/certificatesigningrequests/r%d", i), "request")
		}
		put(t, client, "/registry/certificatesigningrequests/r0", "request, approved")
		put(t, client, "/registry/secrets/default/password", w.encrypt(t, "/registry/secrets/default/password"))
		put(t, client, "/registry/certplane.dev/signers/hosts", "a Signer")
		put(t, client, "/other/program", "not ours")
		lease, err := client.Grant(t.Context(), 3600)
		if err != nil {
			t.Fatal(err)
		}
		put(t, client, "/registry/events/default/e", "an Event", clientv3.WithLease(lease.ID))
	})
	return w
}

func writePair(t *testing.T, dir, name string) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Hour, saturday)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".key"), keyPEM)
	write(t, filepath.Join(dir, name+".crt"), pki.EncodeCertificates(root.Certificate()))
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, client *clientv3.Client, key, value string, options ...clientv3.OpOption) {
	t.Helper()
	if _, err := client.Put(t.Context(), key, value, options...); err != nil {
		t.Fatal(err)
	}
}

// encrypt seals "hunter2" with the keys of the world.
func (w world) encrypt(t *testing.T, key string) string {
	t.Helper()
	config, err := encryptionconfig.LoadEncryptionConfig(t.Context(), w.dir.EncryptionKeys(), false, "test")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := config.Transformers[schema.GroupResource{Resource: "secrets"}].TransformToStorage(t.Context(), []byte("hunter2"), value.DefaultContext(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(stored)
}

// edit calls work with the store of dir, which runs until work returns.
func edit(t *testing.T, dir datadir.Dir, work func(*clientv3.Client)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openTimeout)
	defer cancel()
	store, err := etcd.Start(ctx, etcd.Config{Dir: dir.Etcd()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Stop()
	client := store.Connect()
	defer client.Close()
	work(client)
}

func (w world) edit(t *testing.T, work func(*clientv3.Client)) {
	t.Helper()
	edit(t, w.dir, work)
}

func (w world) saving(protection Protection) Saving {
	return Saving{Source: Source{Dir: w.dir, Prefix: "/registry"}, Protection: protection, Now: saturday}
}

func (w world) save(t *testing.T, name string, saving Saving) string {
	t.Helper()
	file := filepath.Join(w.out, name)
	if _, err := Save(t.Context(), file, saving); err != nil {
		t.Fatal(err)
	}
	return file
}

// keyPair is quicker than a passphrase, which takes a second by design.
func keyPair(t *testing.T) Protection {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return Protection{Recipients: []age.Recipient{identity.Recipient()}, Identities: []age.Identity{identity}}
}

// Restored are the objects with their revisions, the keys, and what expires.
// Clients that know the store from before have to list again.
func TestRestore(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	file := w.save(t, "b", w.saving(protection))
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	dir := datadir.Dir(filepath.Join(t.TempDir(), "sub", "restored"))
	summary, err := Restore(t.Context(), file, dir, Restoring{Protection: protection, Now: sunday})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"certificatesigningrequests": 3 * pageKeys / 2, "secrets": 1, "signers.certplane.dev": 1, "events": 1}
	if diff := cmp.Diff(want, summary.Objects); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	before, err := readKeyFiles(w.dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	after, err := readKeyFiles(dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	if !before.equal(after) {
		t.Error("the keys are others")
	}
	var former, restored *clientv3.GetResponse
	get := func(into **clientv3.GetResponse) func(*clientv3.Client) {
		return func(client *clientv3.Client) {
			answer, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			*into = answer
		}
	}
	w.edit(t, get(&former))
	edit(t, dir, func(client *clientv3.Client) {
		get(&restored)(client)
		wantNewRevisions(t, client, former.Header.Revision)
		lease, err := client.TimeToLive(t.Context(), clientv3.LeaseID(restored.Kvs[len(restored.Kvs)-2].Lease))
		if err != nil || lease.GrantedTTL != 3600 {
			t.Errorf("the lease of an Event is %+v, %v", lease, err)
		}
		if other, err := client.Get(t.Context(), "/other/program"); err != nil || other.Count != 0 {
			t.Errorf("another program's keys are in the backup: %v, %v", other, err)
		}
	})
	for i, kv := range former.Kvs {
		if fmt.Sprint(kv) != fmt.Sprint(restored.Kvs[i]) {
			t.Fatalf("%s was %v, is %v", kv.Key, kv, restored.Kvs[i])
		}
	}
}

// wantNewRevisions checks that revisions do not go backwards for a client that
// has seen former.
func wantNewRevisions(t *testing.T, client *clientv3.Client, former int64) {
	t.Helper()
	answer, err := client.Put(t.Context(), "/registry/certificatesigningrequests/r1", "changed")
	if err != nil {
		t.Fatal(err)
	}
	if ahead := answer.Header.Revision - former; ahead < revisionsAhead {
		t.Errorf("a write has revision %d, which is only %d ahead", answer.Header.Revision, ahead)
	}
	if _, err := client.Put(t.Context(), "/registry/certificatesigningrequests/r1", "request"); err != nil {
		t.Fatal(err)
	}
	event := <-client.Watch(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(former+1))
	if !errors.Is(event.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch from before gets %v, %v", event.Events, event.Err())
	}
}

func TestSaveRefuses(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	existing := w.save(t, "existing", w.saving(protection))
	other := w.saving(protection)
	other.Source.Prefix = "/elsewhere"
	foreign := w.saving(protection)
	foreign.Source.External = &etcd.Remote{Servers: []string{"unix://" + filepath.Join(w.dir.Etcd(), "client.sock")}}
	foreign.Source.Dir = datadir.Dir(t.TempDir())
	for _, name := range []string{datadir.ClientRootCA, datadir.ServingCA, "service-account"} {
		if err := os.MkdirAll(foreign.Source.Dir.PKI(), 0o700); err != nil {
			t.Fatal(err)
		}
		writePair(t, foreign.Source.Dir.PKI(), name)
	}
	nowhere := w.saving(protection)
	nowhere.Source.Dir = datadir.Dir(t.TempDir())
	w.edit(t, func(*clientv3.Client) {
		for _, tc := range []struct {
			reason, file, want string
			saving             Saving
		}{
			{"a file that is there", existing, "exists", w.saving(protection)},
			{"keys in the clear", "new", "encrypted only", w.saving(Protection{})},
			{"no store", "new", "finding the store", nowhere},
			{"keys of another server", "new", "does not belong to the store", foreign},
		} {
			_, err := Save(t.Context(), filepath.Join(w.out, filepath.Base(tc.file)), tc.saving)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", tc.reason, err)
			}
		}
	})
	if _, err := Save(t.Context(), filepath.Join(w.out, "new"), other); err == nil || !strings.Contains(err.Error(), "has no objects") {
		t.Errorf("another prefix: %v", err)
	}
	entries, err := os.ReadDir(w.out)
	if err != nil || len(entries) != 1 {
		t.Errorf("refused backups have left %v, %v", entries, err)
	}
}

// A file that was changed or cut off restores nothing.
func TestDamagedBackups(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	apart := w.saving(Protection{})
	apart.WithoutKeys = true
	sealed, plain := read(t, w.save(t, "sealed", w.saving(protection))), read(t, w.save(t, "plain", apart))
	flip := func(data []byte, at int) []byte {
		changed := bytes.Clone(data)
		changed[at] ^= 1
		return changed
	}
	newer := bytes.Buffer{}
	out, err := newWriter(&newer, Protection{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(out.addJSON(headerName, header{Form: 99, Program: "v9.0.0"}), out.close(Summary{})); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason string
		data   []byte
		with   Protection
		pki    string
		want   string
	}{
		{"cut off, encrypted", sealed[:len(sealed)/2], protection, "", "damaged"},
		{"a byte less, encrypted", sealed[:len(sealed)-1], protection, "", "damaged"},
		{"cut off", plain[:len(plain)/2], Protection{}, w.dir.PKI(), "cut off"},
		{"a byte less", plain[:len(plain)-1], Protection{}, w.dir.PKI(), "cut off"},
		{"changed, encrypted", flip(sealed, len(sealed)/2), protection, "", "damaged"},
		{"its header changed", flip(sealed, 100), protection, "", ""},
		{"a bit of the kind of key changed", flip(sealed, 30), protection, "", "damaged"},
		{"a bit of the kind of key changed, and no key is given", flip(sealed, 30), Protection{}, "", "damaged"},
		{"changed", flip(plain, len(plain)/2), Protection{}, w.dir.PKI(), "damaged"},
		{"another key", sealed, keyPair(t), "", "another key"},
		{"no key", sealed, Protection{}, "", "name the file with the private key"},
		{"of a newer version", newer.Bytes(), Protection{}, "", "form 99, written by certplane v9.0.0"},
		{"no backup", []byte("hello"), Protection{}, "", ErrNoBackup.Error()},
		{"empty", nil, Protection{}, "", ErrNoBackup.Error()},
		{"the keys are kept apart, and not named", plain, Protection{}, "", "--pki"},
		{"the keys are others'", plain, Protection{}, newWorld(t).dir.PKI(), "do not belong to the store"},
		{"it has keys", sealed, protection, w.dir.PKI(), "omit --pki"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			file, dir := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "restored")
			write(t, file, tc.data)
			_, err := Restore(t.Context(), file, datadir.Dir(dir), Restoring{Protection: tc.with, PKI: tc.pki, Now: sunday})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Restore says %v, want %q", err, tc.want)
			}
			if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
				t.Errorf("it has left %v, %v", left, err)
			}
		})
	}
	t.Run("whole", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "b")
		write(t, file, plain)
		if _, err := Verify(t.Context(), file, t.TempDir(), Restoring{PKI: w.dir.PKI(), Now: sunday}); err != nil {
			t.Error(err)
		}
	})
}

// Keys that cannot decrypt the Secrets are detected, even if the CAs fit.
func TestVerifyDecrypts(t *testing.T) {
	w := newWorld(t)
	apart := w.saving(Protection{})
	apart.WithoutKeys = true
	file := w.save(t, "b", apart)
	data, err := encryption.New().Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, w.dir.EncryptionKeys(), data)
	_, err = Verify(t.Context(), file, t.TempDir(), Restoring{PKI: w.dir.PKI(), Now: sunday})
	if err == nil || !strings.Contains(err.Error(), "1 of 1 encrypted values cannot be read") {
		t.Error(err)
	}
}

func TestPassphrase(t *testing.T) {
	w := newWorld(t)
	file := w.save(t, "b", w.saving(Protection{Passphrase: "correct horse"}))
	if bytes.Contains(read(t, file), []byte("serving-ca")) {
		t.Error("the file is not encrypted")
	}
	for passphrase, want := range map[string]string{"correct horse": "", "wrong": "the passphrase does not match the backup", "": "none is given"} {
		_, err := Verify(t.Context(), file, t.TempDir(), Restoring{Protection: Protection{Passphrase: passphrase}, Now: sunday})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: %v", passphrase, err)
		}
	}
}

// Before an upgrade the store has no record yet.
func TestSaveTheStoreOfAnOlderVersion(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	w.edit(t, func(client *clientv3.Client) {
		if _, err := client.Delete(t.Context(), storerecord.Store{Prefix: "/registry"}.Key()); err != nil {
			t.Fatal(err)
		}
	})
	file := w.save(t, "b", w.saving(protection))
	summary, err := Verify(t.Context(), file, t.TempDir(), Restoring{Protection: protection, Now: sunday})
	if err != nil || summary.Record.Format != storerecord.FormatFirst || len(summary.Record.Keys.ServingCA) == 0 {
		t.Errorf("the backup is %+v, %v", summary.Record, err)
	}
}

// A folder that is not empty is not overwritten; an empty one is used.
func TestRestoreIntoAFolder(t *testing.T) {
	w, protection := newWorld(t), keyPair(t)
	file := w.save(t, "b", w.saving(protection))
	restoring := Restoring{Protection: protection, Now: sunday}
	if _, err := Restore(t.Context(), file, w.dir, restoring); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into the server's own folder: %v", err)
	}
	if _, err := Restore(t.Context(), file, datadir.Dir(t.TempDir()), restoring); err != nil {
		t.Errorf("into an empty folder: %v", err)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	names := []string{"certplane-mine.backup", "notes.txt"}
	for day := range 4 {
		names = append(names, filepath.Base(FileIn(dir, saturday.Add(time.Duration(day)*24*time.Hour))))
	}
	for _, name := range names {
		write(t, filepath.Join(dir, name), nil)
	}
	removed, err := Prune(dir, 3)
	if err != nil || len(removed) != 1 || filepath.Base(removed[0]) != "certplane-20261121T030000Z.backup" {
		t.Errorf("removed %v, %v", removed, err)
	}
	if removed, err := Prune(dir, 3); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
