package backup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
)

var secret = Protection{Passphrase: "correct horse"}

// withClientCA is a world whose folder pki is that of a server.
func withClientCA(t *testing.T) world {
	t.Helper()
	w := newWorld(t)
	for _, name := range []string{datadir.ClientCA, "serving", "admin"} {
		writePair(t, w.dir.PKI(), name)
	}
	return w
}

func (w world) export(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(w.out, name)
	if _, err := ExportKeys(file, w.dir, secret, saturday); err != nil {
		t.Fatal(err)
	}
	return file
}

func filesIn(t *testing.T, dir datadir.Dir) map[string]string {
	t.Helper()
	files, err := readKeyFiles(dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for name, file := range files {
		contents[name] = string(file.data)
	}
	return contents
}

// Another server gets what it needs, and neither the root's key nor what each
// server makes for itself. A second file brings it what has changed.
func TestKeysReachAnotherServer(t *testing.T) {
	w := withClientCA(t)
	other := datadir.Dir(filepath.Join(t.TempDir(), "other"))
	file := w.export(t, "first")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v (%v)", info.Mode(), err)
	}
	imported, err := ImportKeys(file, other, secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(imported.Changed, sharedFiles); diff != "" {
		t.Error(diff)
	}
	want := filesIn(t, w.dir)
	for _, own := range []string{"client-ca-root.key", "serving.crt", "serving.key", "admin.crt", "admin.key", "service-account.crt"} {
		delete(want, own)
	}
	if diff := cmp.Diff(filesIn(t, other), want); diff != "" {
		t.Error(diff)
	}
	for name := range want {
		if info, err := os.Stat(filepath.Join(other.PKI(), name)); err != nil || strings.HasSuffix(name, ".key") && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}

	lock, err := other.TakeLock() // the server runs
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	w.addEncryptionKey(t)
	imported, err = ImportKeys(w.export(t, "second"), other, secret)
	if diff := cmp.Diff(imported.Changed, []string{datadir.EncryptionFile}); err != nil || diff != "" || !imported.Running {
		t.Errorf("running: %v, error %v, changed %s", imported.Running, err, diff)
	}
	if diff := cmp.Diff(filesIn(t, other)[datadir.EncryptionFile], filesIn(t, w.dir)[datadir.EncryptionFile]); diff != "" {
		t.Error(diff)
	}
	if again, err := ImportKeys(w.export(t, "third"), other, secret); err != nil || len(again.Changed) > 0 {
		t.Errorf("the same keys changed %v, error %v", again.Changed, err)
	}
	if entries, err := os.ReadDir(string(other)); err != nil || len(entries) != 2 { // lock and pki
		t.Errorf("the folder has %v (%v)", entries, err)
	}
}

// addEncryptionKey is the first step of a rotation.
func (w world) addEncryptionKey(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(w.dir.EncryptionKeys())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	keys.Add()
	if data, err = keys.Encode(); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir.EncryptionKeys(), data)
}

// A file that holds no keys of a server, or those of another one, changes
// nothing.
func TestImportRefuses(t *testing.T) {
	w, stranger := withClientCA(t), withClientCA(t)
	good := w.export(t, "good")
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string, data []byte) string {
		file := filepath.Join(w.out, name)
		write(t, file, data)
		return file
	}
	bare := filepath.Join(w.out, "bare")
	if _, err := Save(t.Context(), bare, Saving{Source: w.saving(Protection{}).Source, WithoutKeys: true, Now: saturday}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, file string
		into         datadir.Dir
		protection   Protection
		err          string
	}{
		{reason: "keys of another server", file: good, into: stranger.dir, protection: secret, err: "has the keys of another server: the client CA is another"},
		{reason: "another passphrase", file: good, protection: Protection{Passphrase: "battery"}, err: "the passphrase does not match"},
		{reason: "cut off", file: in("cut", data[:len(data)-30]), protection: secret, err: "the file is damaged"},
		{reason: "something else", file: in("text", []byte("hello")), protection: secret, err: "not a backup"},
		{reason: "a backup without keys", file: bare, err: "it has no keys"},
		{reason: "no such file", file: filepath.Join(w.out, "nothing"), err: "no such file"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			into := tc.into
			if into == "" {
				into = datadir.Dir(filepath.Join(t.TempDir(), "new"))
				if err := os.MkdirAll(into.PKI(), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			before := filesIn(t, into)
			_, err := ImportKeys(tc.file, into, tc.protection)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(filesIn(t, into))), slices.Sorted(maps.Keys(before))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A file of keys is not a backup. It is never written in the clear, or from a
// folder that is not complete.
func TestExportRefuses(t *testing.T) {
	w := withClientCA(t)
	if _, err := Restore(t.Context(), w.export(t, "keys"), datadir.Dir(filepath.Join(t.TempDir(), "new")), Restoring{Protection: secret, Now: sunday}); err == nil || !strings.Contains(err.Error(), "certplane pki import") {
		t.Errorf("restoring a file of keys: %v", err)
	}
	if _, err := ExportKeys(filepath.Join(w.out, "clear"), w.dir, Protection{}, saturday); err == nil || !strings.Contains(err.Error(), "encrypted only") {
		t.Errorf("exporting in the clear: %v", err)
	}
	if err := os.Remove(filepath.Join(w.dir.PKI(), "client-ca.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := ExportKeys(filepath.Join(w.out, "part"), w.dir, secret, saturday); err == nil || !strings.Contains(err.Error(), "client-ca.key is missing") {
		t.Errorf("exporting a part: %v", err)
	}
}
