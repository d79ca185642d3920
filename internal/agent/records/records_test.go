package records

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/token"
)

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := ID{"ns", "pod", "tls"}
	empty, err := store.Load(id)
	if err != nil || len(empty.Certificates) > 0 {
		t.Fatalf("Load of nothing = %v, %v", empty, err)
	}
	request, err := credential.NewRequest("ED25519", credential.Purpose{PodUID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)
	want := Volume{
		Certificates: map[string]credential.Record{"a": {Pending: request, Current: &credential.Credential{Key: request.Key, Chain: credential.PEM("c"), NotAfter: now}}},
		Tokens:       map[string]token.Record{"t": {Token: "secret", IssuedAt: now, ExpiresAt: now}},
		Notified:     "digest",
	}
	if err := store.Save(id, want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load(id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was saved (-want +got):\n%s", diff)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ns", "pod", "tls.json"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %o", path, info.Mode(), err, mode)
		}
	}
	if ids, err := store.List(); err != nil || len(ids) != 1 || ids[0] != id {
		t.Errorf("List = %v, %v", ids, err)
	}
	for range 2 {
		if err := store.Remove(id); err != nil {
			t.Error(err)
		}
	}
	if ids, err := store.List(); err != nil || len(ids) > 0 {
		t.Errorf("List after Remove = %v, %v", ids, err)
	}
}

// A damaged record is treated as empty, and its content is not shown.
func TestDamagedRecord(t *testing.T) {
	store, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	id := ID{"ns", "pod", "tls"}
	if err := store.Save(id, Volume{Notified: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.path(id), []byte(`{"tokens": {"a": {"token": "secret`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load(id)
	if err == nil || strings.Contains(err.Error(), "secret") || got.Certificates == nil || got.Notified != "" {
		t.Errorf("Load = %v, %v", got, err)
	}
}
