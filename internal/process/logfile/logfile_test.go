package logfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a.log")
	for _, size := range []int{0, 1} {
		file, err := Open(Config{Path: path, MaxSize: size})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "line\nline\n" {
		t.Errorf("the file has %q, error %v", data, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the mode is %v, error %v", info.Mode(), err)
	}
}

func TestRenamed(t *testing.T) {
	dir := t.TempDir()
	file, err := Open(Config{Path: filepath.Join(dir, "a.log"), MaxSize: 1, MaxBackups: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for range 3 {
		if _, err := file.Write([]byte(strings.Repeat("x", 600_000))); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "a*.log"))
	if err != nil || len(files) < 2 {
		t.Errorf("there are %v, error %v", files, err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && info.Mode() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
}

func TestOpenFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: filepath.Join(path, "a.log"), MaxSize: 1}); err == nil {
		t.Error("a log below a file was opened")
	}
}
