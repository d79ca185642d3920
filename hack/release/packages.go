package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// archiveProgram is where units find the program of an archive; packages have it
// elsewhere.
const archiveProgram, packageProgram = "/usr/local/bin/certplane", "/usr/bin/certplane"

const unitDir = "/usr/lib/systemd/system/"

// writePackages writes a package for Debian and one for RPM.
func (r release) writePackages(src source, p program) error {
	stage, err := os.MkdirTemp("", "certplane-package")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	deploy, err := deployFiles(src)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		contents := staged{dir: filepath.Join(stage, format), release: r}
		contents.add(p.path, packageProgram, 0o755)
		for _, f := range append(deploy, r.common...) {
			if err := contents.write(f, destination(f.name, format)); err != nil {
				return err
			}
		}
		if err := r.writePackage(src, p, format, contents.all); err != nil {
			return fmt.Errorf("making the package for %s: %w", format, err)
		}
	}
	return nil
}

func (r release) writePackage(src source, p program, format string, contents files.Contents) error {
	scripts := filepath.Join(src.dir, "deploy", "package")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "certplane", Arch: p.arch, Platform: "linux", Version: r.version, MTime: r.time,
		Section: "admin", Priority: "optional", License: "Apache-2.0",
		Maintainer: "The certplane authors", Homepage: "https://github.com/certplane/certplane",
		Description: "Kubernetes certificate control plane as one program\n" +
			"Serves Kubernetes' certificate APIs, approves and signs requests, and is a\nclient for these APIs, without a Kubernetes cluster.",
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"),
				PreRemove:   filepath.Join(scripts, "preremove.sh"),
				PostRemove:  filepath.Join(scripts, "postremove.sh"),
			},
			Deb: nfpm.Deb{Compression: "gzip"}, // xz takes minutes
			RPM: nfpm.RPM{Compression: "gzip", BuildHost: "certplane", Summary: "Kubernetes certificate control plane as one program"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return os.WriteFile(r.name("_linux_"+p.arch+"."+format), out.Bytes(), 0o644)
}

// destination returns where a package has a file of an archive.
func destination(name, format string) string {
	base := path.Base(name)
	switch {
	case name == "deploy/certplane.sysusers":
		return "/usr/lib/sysusers.d/certplane.conf"
	case name == "deploy/certplane.tmpfiles":
		return "/usr/lib/tmpfiles.d/certplane.conf"
	case name == "deploy/server.yaml":
		return "/etc/certplane/server.yaml"
	case strings.HasPrefix(name, "deploy/"):
		return unitDir + base
	case name == "completions/certplane.bash":
		return "/usr/share/bash-completion/completions/certplane"
	case name == "completions/certplane.fish":
		return "/usr/share/fish/vendor_completions.d/certplane.fish"
	case name == "completions/certplane.zsh" && format == "deb":
		return "/usr/share/zsh/vendor-completions/_certplane"
	case name == "completions/certplane.zsh":
		return "/usr/share/zsh/site-functions/_certplane"
	case strings.HasPrefix(name, "man/"):
		return "/usr/share/" + name + ".gz"
	case name == "LICENSE" && format == "deb":
		return "/usr/share/doc/certplane/copyright"
	case base == name:
		return "/usr/share/doc/certplane/" + name
	}
	panic("no place for " + name)
}

// staged are the files of a package, which nfpm reads from a folder.
type staged struct {
	release
	dir string
	all files.Contents
}

func (s *staged) add(source, destination string, mode os.FileMode) {
	content := &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: s.time}}
	if strings.HasPrefix(destination, "/etc/") {
		content.Type = files.TypeConfigNoReplace
	}
	s.all = append(s.all, content)
}

func (s *staged) write(f file, destination string) error {
	data := f.data
	if strings.HasPrefix(destination, unitDir) {
		data = bytes.ReplaceAll(data, []byte(archiveProgram), []byte(packageProgram))
	}
	if strings.HasSuffix(destination, ".gz") {
		var err error
		if data, err = compress(data); err != nil {
			return err
		}
	}
	source := filepath.Join(s.dir, filepath.FromSlash(destination))
	if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
		return err
	}
	s.add(source, destination, f.mode)
	return os.WriteFile(source, data, 0o644)
}
