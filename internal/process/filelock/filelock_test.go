package filelock

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if taken, err := Take(first); !taken || err != nil {
		t.Fatalf("a free lock: %t, %v", taken, err)
	}
	if held, err := Held(second); !held || err != nil {
		t.Errorf("held by another file: %t, %v", held, err)
	}
	if taken, err := Take(second); taken || err != nil {
		t.Errorf("a lock of another file: %t, %v", taken, err)
	}
	first.Close()
	if held, err := Held(second); held || err != nil {
		t.Errorf("a lock that is free again: %t, %v", held, err)
	}
	if taken, err := Take(second); !taken || err != nil {
		t.Errorf("a lock that is free again: %t, %v", taken, err)
	}
}

// Who looks whether a lock is held keeps nobody from it.
func TestLookersDoNotLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stop := make(chan struct{})
	var lookers sync.WaitGroup
	for range 4 {
		file := open(t, path)
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := Held(file); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 1000 {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if taken, err := Take(file); !taken || err != nil {
			t.Errorf("a lock that others look at: %t, %v", taken, err)
		}
		file.Close()
	}
	close(stop)
	lookers.Wait()
}
