package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// Every way to log ends in a line of JSON. The log belongs to the process, so
// this is the only test that sets one.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := (Config{Format: JSON, Verbosity: 2}).Apply(&out); err != nil {
		t.Fatal(err)
	}
	klog.InfoS("structured", "key", "va\"lue")
	klog.Errorf("formatted %d", 7)
	klog.Background().Error(errors.New("reason"), "contextual")
	klog.V(2).InfoS("detailed")
	klog.V(3).InfoS("too detailed")
	log.Print("from the standard library")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []map[string]any{
		{"msg": "structured", "key": "va\"lue"},
		{"msg": "formatted 7"},
		{"msg": "contextual", "err": "reason"},
		{"msg": "detailed", "v": 2.0},
		{"msg": "from the standard library"},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, line)
		}
		for key, value := range want[i] {
			if got[key] != value {
				t.Errorf("%s is %q, want %q", key, got[key], value)
			}
		}
		if _, ok := got["ts"]; !ok {
			t.Errorf("no time in %s", line)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		reason string
		config Config
		want   string
	}{
		{"the default holds", DefaultConfig(), ""},
		{"unknown format", Config{Format: "xml"}, "logging.format"},
		{"negative", Config{Format: Text, Verbosity: -1}, "logging.verbosity"},
		{"too much", Config{Format: JSON, Verbosity: 11}, "logging.verbosity"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			err := tt.config.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to name %q", err, tt.want)
			}
		})
	}
}
