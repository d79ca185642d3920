// Command release makes the files of a release: archives, packages, an image,
// a Helm chart, lists of their parts, and checksums. It releases a commit, not the working
// tree, and the same commit gives the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	version := flag.String("version", "", "Version, such as v1.2.3. Default: the commit's tag, or Go's name for a commit without a tag.")
	out := flag.String("out", "dist", "Folder to write into. It is emptied first.")
	here := flag.Bool("here", false, "Make only the files for the platform of this machine, to try them.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	built := platforms
	if *here {
		built = []platform{{runtime.GOOS, runtime.GOARCH}}
	}
	if err := run(ctx, built, *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, built []platform, version, out string) error {
	if version != "" && !semantic.MatchString(version) {
		return fmt.Errorf("-version: %q is not a version such as v1.2.3 or v1.2.3-rc.1", version)
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "certplane-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	src, err := checkOut(ctx, filepath.Join(work, "source"))
	if err != nil {
		return err
	}
	programs, err := buildAll(ctx, src, built, version, filepath.Join(work, "bin"))
	if err != nil {
		return err
	}
	r := release{version: programs[0].info.Main.Version, time: src.time, dir: out}
	if version != "" {
		r.version = version
	}
	if r.common, err = commonFiles(ctx, src, programs, filepath.Join(work, "common")); err != nil {
		return err
	}
	return r.write(ctx, src, programs)
}

// release is what all files of a release have in common.
type release struct {
	version string
	time    time.Time
	dir     string
	// common are the files that belong to every program.
	common []file
}

// name returns the name of a file of the release.
func (r release) name(rest string) string {
	return filepath.Join(r.dir, "certplane_"+strings.TrimPrefix(r.version, "v")+rest)
}

func (r release) write(ctx context.Context, src source, programs []program) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.writeSBOM(src, p); err != nil {
			return err
		}
		if err := r.writeArchive(src, p); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		if err := r.writePackages(src, p); err != nil {
			return err
		}
	}
	if err := r.writeImage(programs); err != nil {
		return err
	}
	if err := r.writeChart(src); err != nil {
		return err
	}
	return r.writeChecksums()
}

// source is a commit's files.
type source struct {
	dir  string
	time time.Time
}

// checkOut writes the files of this repository's current commit into dir, as a repository:
// the go command records the commit in its builds.
func checkOut(ctx context.Context, dir string) (source, error) {
	top, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return source{}, err
	}
	commit, err := output(ctx, top, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	if changed, err := output(ctx, top, nil, "git", "status", "--porcelain"); err != nil {
		return source{}, err
	} else if changed != "" {
		fmt.Fprintf(os.Stderr, "release: commit %.12s is released, without the changes of the working tree\n", commit)
	}
	if _, err := output(ctx, top, nil, "git", "clone", "--quiet", "--shared", "--no-checkout", top, dir); err != nil {
		return source{}, err
	}
	if _, err := output(ctx, dir, nil, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return source{}, err
	}
	seconds, err := output(ctx, dir, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("reading the time of the commit: %w", err)
	}
	return source{dir: dir, time: time.Unix(unix, 0).UTC()}, nil
}

// output runs a command and returns its output, without the last line's end.
func output(ctx context.Context, dir string, env []string, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(arguments, " "), err, problems.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
