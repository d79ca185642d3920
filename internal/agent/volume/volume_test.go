package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func file(data string) File { return File{Data: []byte(data), Mode: 0o644, UID: Own, GID: Own} }

func write(t *testing.T, dir string, files Files) Change {
	t.Helper()
	change, err := Write(dir, files, now)
	if err != nil {
		t.Fatal(err)
	}
	return change
}

// visible returns what a program that reads by name sees: content by path.
func visible(t *testing.T, dir string) map[string]string {
	t.Helper()
	seen := map[string]string{}
	var walk func(string)
	walk = func(at string) {
		entries, err := os.ReadDir(filepath.Join(dir, at))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := filepath.Join(at, entry.Name())
			if strings.HasPrefix(name, "..") {
				continue
			}
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatalf("a name leads nowhere: %v", err)
			}
			if info.IsDir() {
				walk(name)
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			seen[name] = string(data)
		}
	}
	walk("")
	return seen
}

func wantVisible(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, visible(t, dir)); diff != "" {
		t.Errorf("visible files (-want +got):\n%s", diff)
	}
}

func TestWriteStates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ns", "pod", "volume")
	steps := []struct {
		reason string
		files  Files
		want   Change
		see    map[string]string
	}{
		{"first", Files{"bundle.pem": file("1"), "tls/key.pem": file("2")}, Replaced, map[string]string{"bundle.pem": "1", "tls/key.pem": "2"}},
		{"the same again", Files{"bundle.pem": file("1"), "tls/key.pem": file("2")}, None, map[string]string{"bundle.pem": "1", "tls/key.pem": "2"}},
		{"new content", Files{"bundle.pem": file("3"), "tls/key.pem": file("4")}, Replaced, map[string]string{"bundle.pem": "3", "tls/key.pem": "4"}},
		{"another file", Files{"bundle.pem": file("3"), "tls/key.pem": file("4"), "tls/ca.pem": file("")}, Replaced, map[string]string{"bundle.pem": "3", "tls/key.pem": "4", "tls/ca.pem": ""}},
		{"a file less", Files{"tls/key.pem": file("4")}, Replaced, map[string]string{"tls/key.pem": "4"}},
		{"a folder becomes a file", Files{"tls": file("5")}, Replaced, map[string]string{"tls": "5"}},
		{"nothing", Files{}, Replaced, map[string]string{}},
	}
	for _, step := range steps {
		if got := write(t, dir, step.files); got != step.want {
			t.Errorf("%s: change = %v, want %v", step.reason, got, step.want)
		}
		wantVisible(t, dir, step.see)
		if change := write(t, dir, step.files); change != None {
			t.Errorf("%s: a second time: change = %v", step.reason, change)
		}
		if hidden := hiddenNames(t, dir); len(hidden) != 2 {
			t.Errorf("%s: besides the files there are %v, want ..data and its folder alone", step.reason, hidden)
		}
	}
}

func hiddenNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// Changes by other processes are undone; correct contents do not count as a
// change.
func TestWriteRepairs(t *testing.T) {
	files := Files{"key.pem": {Data: []byte("secret"), Mode: 0o600, UID: Own, GID: Own}, "a/b": file("x")}
	tests := []struct {
		reason string
		damage func(dir string) error
		want   Change
	}{
		{"a mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "key.pem"), 0o644) }, Repaired},
		{"a link", func(dir string) error { return os.Remove(filepath.Join(dir, "key.pem")) }, Restored},
		{"a link elsewhere", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "a")), os.Symlink("/etc", filepath.Join(dir, "a")))
		}, Restored},
		{"a content", func(dir string) error { return os.WriteFile(filepath.Join(dir, "key.pem"), []byte("x"), 0o600) }, Replaced},
		{"a file", func(dir string) error { return os.Remove(filepath.Join(dir, "a", "b")) }, Replaced},
		{"a file too many", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a", "c"), nil, 0o600) }, Replaced},
		{"all of it", func(dir string) error { return os.RemoveAll(dir) }, Replaced},
		{"the data", func(dir string) error { return os.Remove(filepath.Join(dir, dataName)) }, Replaced},
		{"a killed writer", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "..2029_01_01_00_00_00.1"), 0o755), os.Symlink("x", filepath.Join(dir, nextName)))
		}, None},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "v")
			write(t, dir, files)
			if err := tt.damage(dir); err != nil {
				t.Fatal(err)
			}
			if got := write(t, dir, files); got != tt.want {
				t.Errorf("change = %v, want %v", got, tt.want)
			}
			wantVisible(t, dir, map[string]string{"key.pem": "secret", "a/b": "x"})
			if info, err := os.Stat(filepath.Join(dir, "key.pem")); err != nil || info.Mode() != 0o600 {
				t.Errorf("key.pem: mode %v, %v, want 0600", info.Mode(), err)
			}
			if write(t, dir, files); len(hiddenNames(t, dir)) != 2 {
				hidden := hiddenNames(t, dir)
				t.Errorf("left over: %v", hidden)
			}
		})
	}
}

// Files that do not belong to the volume stay.
func TestWriteLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, Files{"a": file("1")})
	wantVisible(t, dir, map[string]string{"notes.txt": "mine", "a": "1"})
	if _, err := Write(dir, Files{"notes.txt": file("2")}, now); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("writing over somebody's file: %v", err)
	}
	if data, err := os.ReadFile(mine); err != nil || string(data) != "mine" {
		t.Errorf("somebody's file has %q, %v", data, err)
	}
}

func TestPaths(t *testing.T) {
	for _, bad := range []string{
		"", ".", "/etc/passwd", "../x", "a/../../x", "a/..", "..data", "..x/y", "a//b", "./a", "a/",
		strings.Repeat("x", maxName+1), strings.Repeat("x/", maxPath/2) + "y",
	} {
		dir := filepath.Join(t.TempDir(), "v")
		if _, err := Write(dir, Files{bad: file("x")}, now); err == nil {
			t.Errorf("path %.64q is accepted", bad)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("path %.64q: a folder was made", bad)
		}
	}
	if _, err := Write(t.TempDir(), Files{"a": file("x"), "a/b/c": file("y")}, now); err == nil || !strings.Contains(err.Error(), `"a" is a file`) {
		t.Errorf("a file that is a folder too: %v", err)
	}
	several := Files{}
	for _, name := range []string{"g", "c", "a", "f", "b", "e", "d"} {
		several[name+"/.."] = file("x")
	}
	if _, err := Write(t.TempDir(), several, now); err == nil || !strings.Contains(err.Error(), `"a/.."`) {
		t.Errorf("of several, not the first one is named: %v", err)
	}
	for _, good := range []string{"a", "a/..b", "a..", ".hidden", strings.Repeat("x", maxName)} {
		if _, err := Write(filepath.Join(t.TempDir(), "v"), Files{good: file("x")}, now); err != nil {
			t.Errorf("path %.64q: %v", good, err)
		}
	}
}

// A failed write leaves the former state.
func TestWriteFailureKeepsState(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Files{"a": file("1")})
	// A link cannot replace a folder, so the last step fails for root too.
	if err := errors.Join(os.Remove(filepath.Join(dir, nextName)), os.MkdirAll(filepath.Join(dir, nextName, "x"), 0o755)); err == nil {
		t.Fatal("there was something to remove")
	}
	if err := os.MkdirAll(filepath.Join(dir, nextName, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, Files{"a": file("2")}, now); err == nil {
		t.Fatal("the write succeeded")
	}
	wantVisible(t, dir, map[string]string{"a": "1"})
}

// A reader that opens files by name finds all of them at any time, and never
// parts of two states in one file.
func TestReadersFindFiles(t *testing.T) {
	dir := t.TempDir()
	state := func(i int) Files {
		return Files{"bundle": file(fmt.Sprintf("%d %d", i, i)), "d/other": file("x")}
	}
	write(t, dir, state(0))
	var reads, done atomic.Int64
	go func() {
		defer done.Store(1)
		for i := 1; i < 60; i++ {
			for seen := reads.Load(); reads.Load() < seen+2; { // no reader is two states behind
				runtime.Gosched()
			}
			if _, err := Write(dir, state(i), now); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for done.Load() == 0 {
		for _, name := range []string{"bundle", "d/other"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Errorf("a reader does not find a file: %v", err)
			}
			if a, b, two := strings.Cut(string(data), " "); two && a != b {
				t.Errorf("a reader sees parts of two states: %q", data)
			}
		}
		reads.Add(1)
	}
}

func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	write(t, dir, Files{"a/b": file("1")})
	loaded, err := Load(dir)
	if err != nil || len(loaded) != 1 || string(loaded["a/b"].Data) != "1" || loaded["a/b"].Mode != 0o644 {
		t.Errorf("Load = %v, %v", loaded, err)
	}
	if change := write(t, dir, loaded); change != None {
		t.Errorf("writing what was loaded: change = %v", change)
	}
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if loaded, err := Load(dir); err != nil || len(loaded) > 0 {
		t.Errorf("Load of what is gone = %v, %v", loaded, err)
	}
}

func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	files := Files{"a": {Data: []byte("1"), Mode: 0o640, UID: 1234, GID: 2345}}
	write(t, dir, files)
	if change := write(t, dir, files); change != None {
		t.Errorf("a second time: change = %v", change)
	}
	if err := os.Chown(filepath.Join(dir, "a"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if change := write(t, dir, files); change != Repaired {
		t.Errorf("after the owner changed: change = %v, want %v", change, Repaired)
	}
	if !hasMetadata(filepath.Join(dir, dataName, "a"), files["a"]) {
		t.Error("the owner is still another")
	}
}
