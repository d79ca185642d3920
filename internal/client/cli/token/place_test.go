package token

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServerURL(t *testing.T) {
	for _, tc := range []struct{ text, want, refused string }{
		{text: "https://certplane.example.com:6443", want: "https://certplane.example.com:6443"},
		{text: "https://example.com/certplane", want: "https://example.com/certplane"},
		{text: "certplane.example.com:6443", want: "https://certplane.example.com:6443"},
		{text: "certplane.example.com", want: "https://certplane.example.com"},
		{text: "192.0.2.7:6443", want: "https://192.0.2.7:6443"},
		{text: "[2001:db8::7]:6443", want: "https://[2001:db8::7]:6443"},
		{text: "http://certplane.example.com", refused: "must begin with https://"},
		{text: "https://", refused: "is not the URL of a server"},
		{text: "https://a:b", refused: "is not the URL of a server"},
		{text: ":6443", refused: "is not the URL of a server"},
		{text: "a b", refused: "is not the URL of a server"},
		{text: "https://me:secret@example.com", refused: "without a user"},
		{text: "https://example.com?x=y", refused: "without a user, a query"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			got, err := ServerURL(tc.text)
			switch {
			case tc.refused == "" && (err != nil || got != tc.want):
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused) || strings.Contains(err.Error(), "secret")):
				t.Errorf("got %q, %v; want an error with %q and no secrets", got, err, tc.refused)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bootstrap.kubeconfig")
	if err := (Place{Path: file}).Check(); err != nil {
		t.Fatalf("a new file: %v", err)
	}
	if err := (Place{Path: file}).Write([]byte("first")); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"check": Place{Path: file}.Check(), "write": Place{Path: file}.Write([]byte("second"))} {
		if err == nil || !strings.Contains(err.Error(), "exists already: name another file, or replace it with --overwrite") {
			t.Errorf("%s of a file that is there: %v", what, err)
		}
	}
	assertFile(t, file, "first")
	// A file from an older version or a redirection is closed to other users.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	replace := Place{Path: file, Overwrite: true}
	if err := replace.Check(); err != nil {
		t.Errorf("replacing: %v", err)
	}
	if err := replace.Write([]byte("second")); err != nil {
		t.Fatal(err)
	}
	assertFile(t, file, "second")
	if err := (Place{Path: dir, Overwrite: true}).Check(); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	if err := (Place{Path: filepath.Join(dir, "nosuch", "file")}).Check(); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("no such folder: %v", err)
	}
}

func assertFile(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != want || info.Mode().Perm() != 0o600 {
		t.Errorf("%s has %q, mode %o; want %q, 600", path, data, info.Mode().Perm(), want)
	}
}
