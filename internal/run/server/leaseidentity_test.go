package server

import (
	"testing"

	"github.com/certplane/certplane/internal/store/datadir"
)

// The holder of the lock of a data directory has the same name after a crash;
// no other data directory has that name.
func TestLeaseIdentity(t *testing.T) {
	identity := func(dir string) string {
		t.Helper()
		lock, err := lockDataDir(datadir.Dir(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		name, err := leaseIdentity(lock)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	one, other := t.TempDir(), t.TempDir()
	if before, after := identity(one), identity(one); before != after {
		t.Errorf("one data directory is %s, and then %s", before, after)
	}
	if identity(one) == identity(other) {
		t.Error("two data directories have the same name")
	}
}
