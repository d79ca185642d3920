package ambient

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	for size, valid := range map[int]bool{0: true, maxFile: true, maxFile + 1: false} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := Process().ReadFile(path); (err == nil) != valid || valid && len(data) != size {
			t.Errorf("%d bytes: %d, %v", size, len(data), err)
		}
	}
	if _, err := Process().ReadFile(filepath.Join(dir, "missing")); !os.IsNotExist(err) {
		t.Errorf("missing file: %v", err)
	}
}
