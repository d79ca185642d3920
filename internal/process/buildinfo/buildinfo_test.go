package buildinfo

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrom(t *testing.T) {
	tests := []struct {
		reason string
		build  debug.BuildInfo
		want   Info
	}{
		{
			reason: "a release build",
			build: debug.BuildInfo{
				GoVersion: "go1.26.8",
				Main:      debug.Module{Version: "v0.1.0"},
				Deps:      []*debug.Module{{Path: "a.example/other", Version: "v3.0.0"}, {Path: "k8s.io/apimachinery", Version: "v0.37.2"}},
				Settings: []debug.BuildSetting{
					{Key: "vcs.revision", Value: "4f1e"},
					{Key: "vcs.time", Value: "2026-08-01T10:00:00+02:00"},
					{Key: "vcs.modified", Value: "false"},
				},
			},
			want: Info{Version: "v0.1.0", Revision: "4f1e", Time: "2026-08-01T08:00:00Z", Go: "go1.26.8", Kubernetes: "v1.37.2"},
		},
		{
			reason: "an edited working tree says so",
			build: debug.BuildInfo{
				Main:     debug.Module{Version: "(devel)"},
				Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}},
			},
			want: Info{Version: "(devel)", Modified: true, Kubernetes: "unknown"},
		},
		{
			reason: "a replaced library counts with its replacement's version",
			build: debug.BuildInfo{
				Main: debug.Module{Version: "v1.0.0"},
				Deps: []*debug.Module{{
					Path: "k8s.io/apimachinery", Version: "v0.37.2",
					Replace: &debug.Module{Path: "a.example/fork", Version: "v0.38.0-rc.1"},
				}},
			},
			want: Info{Version: "v1.0.0", Kubernetes: "v1.38.0-rc.1"},
		},
		{
			reason: "nothing recorded",
			want:   Info{Version: "unknown", Kubernetes: "unknown"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, From(&tt.build)); diff != "" {
				t.Errorf("From() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadNamesToolchain(t *testing.T) {
	if info := Read(); info.Go == "" || info.Platform == "" {
		t.Errorf("Read() = %+v, want Go version and platform", info)
	}
}
