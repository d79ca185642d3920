package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A full store can be started, emptied and written again.
func TestAFullStoreRecovers(t *testing.T) {
	const quota = 8 << 20
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: dir, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, s)
	data := string(bytes.Repeat([]byte("x"), 1<<20))
	err = nil
	for i := 0; err == nil && i < 100; i++ {
		_, err = client.Put(t.Context(), fmt.Sprintf("/k/%d", i), data)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("the store was filled to %v", err)
	}
	if space, err := s.Read(t.Context()); err != nil || !space.Full || space.InUse < 2*quota || space.Limit != 2*quota+16<<20 {
		t.Fatalf("space %+v", space)
	}
	s.Stop()

	s, err = Start(t.Context(), Config{Dir: dir, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client = connect(t, s)
	if err := s.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	// There is room for more than before.
	if _, err := client.Put(t.Context(), "/small", "x"); err != nil {
		t.Errorf("after a restart and disarming: %v", err)
	}
	gone, err := client.Delete(t.Context(), "/k/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context(), gone.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context(), gone.Header.Revision); err != nil {
		t.Errorf("compacting twice: %v", err)
	}
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if space, err := s.Read(t.Context()); err != nil || space.Full || space.Size > 1<<20 || space.Revision != gone.Header.Revision {
		t.Errorf("space %+v after deleting all", space)
	}
}

// Without a log, etcd would wait forever.
func TestAStoreWithoutItsLog(t *testing.T) {
	for reason, damage := range map[string]func(wal string) error{
		"no folder": os.RemoveAll,
		"no file": func(wal string) error {
			return errors.Join(os.RemoveAll(wal), os.Mkdir(wal, 0o700))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			dir := t.TempDir()
			start(t, dir).Stop()
			if err := damage(filepath.Join(dir, "member", "wal")); err != nil {
				t.Fatal(err)
			}
			s, err := startWithin(t, dir)
			if err == nil {
				s.Stop()
				t.Fatal("it was started")
			}
			for _, want := range []string{filepath.Join(dir, "member", "wal"), "certplane backup restore"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not have %q: %v", want, err)
				}
			}
		})
	}
}
