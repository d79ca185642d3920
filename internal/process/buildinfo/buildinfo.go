// Package buildinfo returns the version and the origin of this program.
//
// It uses the data that the Go toolchain records in every binary, so builds need linker
// flags for the version only to replace the one derived from the commit.
package buildinfo

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// unknown stands for a value that a build did not record, as in a test binary.
const unknown = "unknown"

// VersionSuffix is the suffix of the Kubernetes version that "certplane serve" reports, as
// build metadata (semver.org).
const VersionSuffix = "+certplane"

// librariesModule carries the version of the Kubernetes libraries: they are
// all released together, as v0.MINOR.PATCH for Kubernetes v1.MINOR.PATCH.
const librariesModule = "k8s.io/apimachinery"

// Info describes a build.
type Info struct {
	// Version is the module's version, or "(devel)" for a build from a
	// working tree without version tags.
	Version string `json:"version"`
	// Revision is the commit that was built, when known.
	Revision string `json:"revision,omitempty"`
	// Time is when that commit was made (RFC 3339), when known.
	Time string `json:"time,omitempty"`
	// Modified is true when the working tree differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// Go is the toolchain's version, Platform its target.
	Go       string `json:"goVersion"`
	Platform string `json:"platform"`
	// Kubernetes is the Kubernetes release whose libraries are built in.
	Kubernetes string `json:"kubernetesVersion"`
}

// Read describes the running program.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	info := From(build)
	info.Version = cmp.Or(release, info.Version)
	info.Platform = runtime.GOOS + "/" + runtime.GOARCH
	return info
}

// From describes a program by its build record.
func From(build *debug.BuildInfo) Info {
	info := Info{
		Version:    orUnknown(build.Main.Version),
		Go:         build.GoVersion,
		Kubernetes: kubernetes(build.Deps),
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Revision = s.Value
		case "vcs.time":
			info.Time = normalTime(s.Value)
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

// kubernetes turns the libraries' v0.MINOR.PATCH into Kubernetes' v1.MINOR.PATCH.
func kubernetes(deps []*debug.Module) string {
	for _, dep := range deps {
		if dep.Path != librariesModule {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if rest, ok := strings.CutPrefix(dep.Version, "v0."); ok {
			return "v1." + rest
		}
	}
	return unknown
}

func orUnknown(version string) string {
	if version == "" {
		return unknown
	}
	return version
}

// normalTime brings the times of all version control systems into one form.
func normalTime(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.UTC().Format(time.RFC3339)
}
