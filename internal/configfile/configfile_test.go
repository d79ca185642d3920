package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/configfile"
)

// settings are a configuration as small as one can be.
type settings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Size       int    `json:"size"`
	Name       string `json:"name"`
}

func (s settings) Validate() error {
	if s.Size < 0 {
		return errors.New("size: must not be negative")
	}
	return nil
}

const head = "apiVersion: config.certplane.dev/v1alpha1\nkind: TestConfiguration\n"

func TestLoad(t *testing.T) {
	tests := []struct {
		reason, text string
		want         settings // but for its head
		refused      string   // part of the error
	}{
		{reason: "nothing said", text: head, want: settings{Size: 1, Name: "default"}},
		{reason: "one field said", text: head + "size: 2", want: settings{Size: 2, Name: "default"}},
		{reason: "documents of comments", text: "# a\n---\n" + head + "---\n# b\n", want: settings{Size: 1, Name: "default"}},
		{reason: "a value that cannot work", text: head + "size: -1", refused: "size: must not be negative"},
		{reason: "unknown field", text: head + "siez: 2", refused: `unknown field "siez"`},
		{reason: "field twice", text: head + "size: 2\nsize: 3", refused: "already set"},
		{reason: "another type", text: head + "size: big", refused: "size"},
		{reason: "two documents", text: head + "---\n" + head, refused: "more than one YAML document"},
		{reason: "another kind is named before its fields", text: strings.Replace(head, "Test", "Server", 1) + "serving: {}", refused: `"ServerConfiguration"`},
		{reason: "no kind", text: "size: 2", refused: `must be "config.certplane.dev/v1alpha1" and "TestConfiguration"`},
		{reason: "kind in another case", text: strings.Replace(head, "kind", "Kind", 1), refused: "kind"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := settings{Size: 1, Name: "default"}
			err := configfile.Load(path, "TestConfiguration", &got)
			switch {
			case tc.refused == "" && err != nil:
				t.Fatal(err)
			case tc.refused == "":
				tc.want.APIVersion, tc.want.Kind = configfile.APIVersion, "TestConfiguration"
				if got != tc.want {
					t.Errorf("got %+v, want %+v", got, tc.want)
				}
			case err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.refused):
				t.Errorf("error %v, want one with %q and the file", err, tc.refused)
			}
		})
	}
}
