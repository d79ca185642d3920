package datadir

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrepare(t *testing.T) {
	server := []string{"lock", "etcd/member/snap/db", "pki/serving-ca.crt", "admin.kubeconfig"}
	with := func(more ...string) []string { return append(more, server...) }
	tests := []struct {
		reason string
		files  []string
		mode   fs.FileMode
		want   fs.FileMode // of the folder afterwards
		err    string
	}{
		{reason: "an empty folder as mkdir makes it", mode: 0o755, want: 0o700},
		{reason: "an empty folder that anybody can write to", mode: 0o777, want: 0o700},
		{reason: "an empty /tmp", mode: 0o777 | fs.ModeSticky, want: 0o777 | fs.ModeSticky, err: "other users can write"},
		{reason: "a folder with somebody's files", files: []string{"thesis.txt"}, mode: 0o755, want: 0o755, err: "such as thesis.txt"},
		{reason: "many files", files: []string{"d", "c", "b", "a"}, mode: 0o755, want: 0o755, err: "such as a, b, c, ...: choose a new or an empty folder"},
		{reason: "a hidden file", files: []string{".bashrc"}, mode: 0o700, want: 0o700, err: "such as .bashrc"},
		{reason: "a mount point", files: []string{"lost+found/"}, mode: 0o755, want: 0o700},
		{reason: "a server's folder", files: server, mode: 0o700, want: 0o700},
		{reason: "a server's folder that was opened", files: server, mode: 0o755, want: 0o700},
		{reason: "a server's folder, killed in its first moments", files: []string{"lock"}, mode: 0o700, want: 0o700},
		{reason: "killed while it wrote", files: with(".admin.kubeconfig.123"), mode: 0o700, want: 0o700},
		{reason: "the keys of another server", files: []string{"pki/encryption.yaml", "pki/client-ca.crt"}, mode: 0o700, want: 0o700},
		{reason: "only the store is left", files: []string{"etcd/member/snap/db"}, mode: 0o700, want: 0o700},
		{reason: "pki of another program", files: []string{"pki/private/ca.key"}, mode: 0o755, want: 0o755, err: "such as pki"},
		{reason: "Kubernetes' folder", files: []string{"pki/ca.crt", "admin.conf", "manifests/etcd.yaml"}, mode: 0o755, want: 0o755, err: "such as admin.conf, manifests, pki"},
		{reason: "somebody else's lock", files: []string{"lock", "thesis.txt"}, mode: 0o755, want: 0o755, err: "such as thesis.txt"},
		{reason: "a folder in use beside other files", files: with("thesis.txt"), mode: 0o755, want: 0o755},
		{reason: "a folder in use to which all can write", files: with("thesis.txt"), mode: 0o777, want: 0o777, err: "other users can write"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			fill(t, dir, tc.files)
			if err := os.Chmod(dir, tc.mode); err != nil {
				t.Fatal(err)
			}
			before := list(t, dir)
			err := Dir(dir).Prepare()
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Prepare says %v, want %q", err, tc.err)
			}
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode() &^ fs.ModeDir; got != tc.want {
				t.Errorf("the folder's mode is %v, want %v", got, tc.want)
			}
			if after := list(t, dir); !maps.Equal(before, after) {
				t.Errorf("the folder had %v, has %v", before, after)
			}
		})
	}
}

// A link to a folder is accepted and refused like the folder.
func TestPrepareFollowsLinks(t *testing.T) {
	own, others, link := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "link")
	fill(t, others, []string{"thesis.txt"})
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	if err := Dir(link).Prepare(); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(others, filepath.Join(own, "others")); err != nil {
		t.Fatal(err)
	}
	if err := Dir(filepath.Join(link, "others")).Prepare(); err == nil {
		t.Error("a link led to somebody's files")
	}
}

// The folders of keys and data are closed to other users again.
func TestPrepareClosesKeys(t *testing.T) {
	dir := Dir(t.TempDir())
	fill(t, string(dir), []string{"lock", "pki/serving-ca.key", "etcd/member/snap/db"})
	for range 2 {
		for _, inside := range []string{dir.PKI(), dir.Etcd()} {
			if err := os.Chmod(inside, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := dir.Prepare(); err != nil {
			t.Fatal(err)
		}
		for _, inside := range []string{dir.PKI(), dir.Etcd()} {
			if info, err := os.Stat(inside); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v, %v", inside, info.Mode(), err)
			}
		}
	}
}

// fill makes files, and folders where a name ends with a slash.
func fill(t *testing.T, dir string, names []string) {
	t.Helper()
	for _, name := range append(names, "./") {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o700)
		} else {
			err = os.WriteFile(path, []byte(name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the files below a folder with their contents.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			data, readErr := os.ReadFile(path)
			found[path], err = string(data), readErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
