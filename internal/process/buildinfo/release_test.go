package buildinfo

import "testing"

func TestIsRelease(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true, "v0.0.0-20261127124500-cf3157f9ab12": false, "v1.2.4-0.20261127124500-cf3157f9ab12": false,
		"v1.2.3+dirty": false, "(devel)": false, "unknown": false,
	} {
		if got := (Info{Version: version}).IsRelease(); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
	if (Info{Version: "v1.2.3", Modified: true}).IsRelease() {
		t.Error("a modified release counts as one")
	}
}
