package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type writer func(path string, data []byte, perm fs.FileMode) error

func TestPlacesWholeFile(t *testing.T) {
	for name, write := range map[string]writer{"Write": Write, "Create": Create} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tls.key")
			if err := write(path, []byte("secret"), 0o640); err != nil {
				t.Fatal(err)
			}
			if got := read(t, path); got != "secret" {
				t.Errorf("content = %q", got)
			}
			if got := stat(t, path).Mode().Perm(); got != 0o640 {
				t.Errorf("mode = %o, want 640", got)
			}
			wantOnly(t, filepath.Dir(path), "tls.key")
		})
	}
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tls.crt")
	for _, data := range []string{"old", "new"} {
		if err := Write(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, path); got != "new" {
		t.Errorf("content = %q, want the second write's", got)
	}
}

func TestCreateKeepsWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tls.key")
	if err := Create(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create over a file = %v, want fs.ErrExist", err)
	}
	if got := read(t, path); got != "first" {
		t.Errorf("content = %q, want it untouched", got)
	}
	wantOnly(t, filepath.Dir(path), "tls.key")
}

// A folder in the file's place makes the last step, the move, fail.
func TestFailedMoveLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tls.crt")
	if err := os.MkdirAll(filepath.Join(path, "occupied"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0o644); err == nil {
		t.Error("Write over a folder succeeded")
	}
	wantOnly(t, dir, "tls.crt")
}

func TestUnwritableFolder(t *testing.T) {
	// A file where the folder should be stops root too, which a folder's mode does not.
	notDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notDir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := CheckDir(notDir); err == nil {
		t.Error("CheckDir accepts a file")
	}
	if err := Write(filepath.Join(notDir, "tls.crt"), []byte("x"), 0o644); err == nil {
		t.Error("Write below a file succeeded")
	}
}

// Each attempt fails with the same message, although each has another temporary file.
func TestSameMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "tls.crt")
	want := "writing " + path + ": no such file or directory"
	if err := Write(path, []byte("x"), 0o644); err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestCheckDirLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDir(dir); err != nil {
		t.Fatal(err)
	}
	wantOnly(t, dir)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func wantOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files in the folder (-want +got):\n%s", diff)
	}
}
