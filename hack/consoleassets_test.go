package hack

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of others that the console serves are what consoleassets.sh got, and the
// license of each is beside it.
func TestConsoleAssets(t *testing.T) {
	sums, err := os.ReadFile("consoleassets.sha256")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"console.css": true, "console.js": true, "icon.svg": true} // our own
	folder := "../internal/client/console/assets"
	for line := range strings.Lines(string(sums)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file of its project: run hack/consoleassets.sh", name)
		}
		if project, _, _ := strings.Cut(name, "."); strings.HasSuffix(name, ".js") && !strings.Contains(string(sums), "LICENSE."+project) {
			t.Errorf("%s has no license beside it", name)
		}
		known[name] = true
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !known[entry.Name()] {
			t.Errorf("%s has no hash: consoleassets.sh has to get it, if it is of others", entry.Name())
		}
	}
}
