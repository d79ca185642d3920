package configfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/configfile"
)

// settings are a minimal configuration.
type settings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Size       int    `json:"size"`
	Name       string `json:"name"`
	inner
}

type inner struct {
	After    metav1.Duration            `json:"after"`
	Limits   *limits                    `json:"limits,omitempty"`
	Each     []limits                   `json:"each,omitempty"`
	Switches map[string]bool            `json:"switches,omitempty"`
	Waits    map[string]metav1.Duration `json:"waits,omitempty"`
	Secret   string                     `json:"-"`
}

type limits struct {
	Share  float64         `json:"share,omitempty"`
	Small  int32           `json:"small,omitempty"`
	Count  uint16          `json:"count,omitempty"`
	Wait   metav1.Duration `json:"wait,omitzero"`
	Time   *metav1.Time    `json:"time,omitempty"`
	Listen string          `json:"listen,omitempty"`
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
		{reason: "unknown fields", text: head + "siez: 2\nlimits: {smal: 2}", refused: "2 fields are wrong:\nunknown field \"limits.smal\"\nunknown field \"siez\""},
		{reason: "another type", text: head + "size: big", refused: `: size: "big" is not a whole number`},
		{reason: "a file that is no object", text: "[]", refused: "cannot unmarshal array"},
		{reason: "days", text: head + "after: 30d\nlimits: {wait: 1d12h}\neach: [{wait: 1h0m0s}]\nwaits: {a: 2d}", want: settings{Size: 1, Name: "default", inner: inner{
			After: metav1.Duration{Duration: 720 * time.Hour}, Limits: &limits{Wait: metav1.Duration{Duration: 36 * time.Hour}},
			Each:  []limits{{Wait: metav1.Duration{Duration: time.Hour}}},
			Waits: map[string]metav1.Duration{"a": {Duration: 48 * time.Hour}},
		}}},
		{reason: "nothing for a duration", text: head + "after: null", want: settings{Size: 1, Name: "default"}},
		{reason: "values of each kind", text: head + "limits: {share: 0.5, small: -3, count: 65535, listen: \"6443\", time: null}\nswitches: {a: true}", want: settings{Size: 1, Name: "default", inner: inner{
			Limits: &limits{Share: 0.5, Small: -3, Count: 65535, Listen: "6443"}, Switches: map[string]bool{"a": true},
		}}},
		{reason: "a duration without a unit", text: head + "after: 86400", refused: ": after: 86400 is not a duration: want a number with a unit (d, h, m, s or ms), such as 30d"},
		{reason: "a duration with an unknown unit", text: head + "limits: {wait: 2w}", refused: `: limits.wait: "2w" is not a duration: want a number with a unit`},
		{reason: "a duration in a list", text: head + "each: [{}, {wait: soon}]", refused: `: each[1].wait: "soon" is not a duration`},
		{reason: "a duration in a map", text: head + "waits: {b: [1d]}", refused: ": waits.b: a list is not a duration"},
		{reason: "a number for a string", text: head + "limits: {listen: 6443}", refused: `: limits.listen: 6443 is not a string: write it with quotes, "6443"`},
		{reason: "a list for a string", text: head + "name: [a]", refused: ": name: a list is not a string"},
		{reason: "a string for a switch", text: head + `switches: {a: "yes"}`, refused: `: switches.a: "yes" is not true or false`},
		{reason: "a fraction for a whole number", text: head + "limits: {small: 1.5}", refused: ": limits.small: 1.5 is not a whole number of at most 2147483647"},
		{reason: "a number that is too large", text: head + "limits: {count: 65536}", refused: ": limits.count: 65536 is not a whole number from 0 to 65535"},
		{reason: "a string for a fraction", text: head + "limits: {share: half}", refused: `: limits.share: "half" is not a number`},
		{reason: "a scalar for an object", text: head + "limits: 3", refused: ": limits: 3 is not an object: want fields below it, such as share"},
		{reason: "a scalar for a list", text: head + "each: 3", refused: ": each: 3 is not a list: want [3]"},
		{reason: "a list for a map", text: head + "switches: [a]", refused: ": switches: a list is not an object: want NAME: VALUE below it"},
		{reason: "a type with a form of its own", text: head + "limits: {time: noon}", refused: `: limits.time: "noon" cannot be read: `},
		{reason: "all wrong values at once", text: head + "size: big\nafter: 1x", refused: "2 fields are wrong:\nafter: \"1x\" is not a duration: want a number with a unit (d, h, m, s or ms), such as 30d, 12h or 1h30m\nsize: \"big\" is not a whole number"},
		{reason: "all problems of each kind at once", text: head + "siez: 2\nlimits: {share: half, smal: 2}\nafter: soon", refused: "4 fields are wrong:\nafter: \"soon\" is not a duration: want a number with a unit (d, h, m, s or ms), such as 30d, 12h or 1h30m\nlimits.share: \"half\" is not a number\nunknown field \"limits.smal\"\nunknown field \"siez\""},
		{reason: "a value that cannot work and an unknown field", text: head + "size: -1\nsiez: 2", refused: "2 fields are wrong:\nsize: must not be negative\nunknown field \"siez\""},
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
				if !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got %+v, want %+v", got, tc.want)
				}
			case err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.refused):
				t.Errorf("error %v, want one with %q and the file", err, tc.refused)
			}
		})
	}
}
