package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// semantic matches versions that Go, Debian, RPM and registries all understand.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// platform is the target of a build, in Go's names.
type platform struct{ os, arch string }

// platforms are the platforms of a release. Packages and the image are made for the first
// ones.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// program is a built program.
type program struct {
	platform
	path string
	// info is the build information that the go command recorded in the program.
	info *buildinfo.BuildInfo
}

// buildAll builds the program for each of the platforms.
func buildAll(ctx context.Context, src source, built []platform, version, dir string) ([]program, error) {
	flags := "-s -w"
	if version != "" {
		flags += " -X github.com/certplane/certplane/internal/process/buildinfo.release=" + version
	}
	var programs []program
	for _, p := range built {
		fmt.Fprintf(os.Stderr, "release: building for %s/%s\n", p.os, p.arch)
		path := filepath.Join(dir, p.os+"_"+p.arch, "certplane")
		env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=" + p.os, "GOARCH=" + p.arch}
		if _, err := output(ctx, src.dir, env, "go", "build", "-trimpath", "-buildvcs=true", "-tags", "netgo", "-ldflags", flags, "-o", path, "./cmd/certplane"); err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading what %s was built from: %w", path, err)
		}
		programs = append(programs, program{p, path, info})
	}
	return programs, nil
}

// runnable returns the program for this machine.
func runnable(programs []program) (program, error) {
	for _, p := range programs {
		if p.os == runtime.GOOS && p.arch == runtime.GOARCH {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("releases are made on one of the platforms %v, not on %s/%s: manual pages are written by the program", platforms, runtime.GOOS, runtime.GOARCH)
}
