package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

var (
	distDir  = flag.String("dist", "../../dist", "Folder with the release to test.")
	otherDir = flag.String("other", "", "Folder with a second release of the same commit, which must be the same.")
)

// released returns the only file of the release whose name ends so.
func released(t *testing.T, suffix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*distDir, "certplane_*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d files *%s: run 'make release' first", *distDir, len(found), suffix)
	}
	return found[0]
}

// contents returns the checksums of all files of a release, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return all
}

func TestChecksums(t *testing.T) {
	sums, err := os.ReadFile(filepath.Join(*distDir, checksumsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, *distDir)
	delete(want, checksumsFile)
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if want[name] != sum {
			t.Errorf("%s has the checksum %s, %s says %s", name, want[name], checksumsFile, sum)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s has no checksum", name)
	}
}

func TestReproducible(t *testing.T) {
	if *otherDir == "" {
		t.Skip("no second release to compare with: see -other")
	}
	one, other := contents(t, *distDir), contents(t, *otherDir)
	if len(one) != len(other) {
		t.Errorf("one release has %d files, the other %d", len(one), len(other))
	}
	for name, sum := range one {
		if other[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
}

// untar writes an archive of regular files into a new folder.
func untar(t *testing.T, archive io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s belongs to the user %d %q of the builder", header.Name, header.Uid, header.Uname)
		}
		path := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func untarGzip(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return untar(t, r)
}

// runs checks that a program runs and is of this release.
func runs(t *testing.T, program string) {
	t.Helper()
	out, err := exec.Command(program, "version", "-o", "json").Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	var info struct{ Version, Revision string }
	if err := json.Unmarshal(out, &info); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Base(released(t, "_linux_amd64.deb")); want != "certplane_"+strings.TrimPrefix(info.Version, "v")+"_linux_amd64.deb" || info.Revision == "" {
		t.Errorf("the program says %s, the release is %s", out, want)
	}
}

func TestArchives(t *testing.T) {
	for _, p := range platforms {
		t.Run(p.os+"_"+p.arch, func(t *testing.T) {
			path := released(t, "_"+p.os+"_"+p.arch+".tar.gz")
			dir := filepath.Join(untarGzip(t, path), strings.TrimSuffix(filepath.Base(path), ".tar.gz"))
			names := []string{"README.md", "LICENSE", "THIRD_PARTY_LICENSES", "completions/certplane.bash", "man/man1/certplane-serve.1"}
			if p.os == "linux" {
				names = append(names, "deploy/certplane.service", "deploy/certplane.sysusers", "deploy/server.yaml")
			}
			for _, name := range names {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
					t.Errorf("%s: %v", name, err)
				}
			}
			program := filepath.Join(dir, "certplane")
			if p.os == runtime.GOOS && p.arch == runtime.GOARCH {
				runs(t, program)
			}
			testSBOM(t, released(t, "_"+p.os+"_"+p.arch+".cdx.json"), program)
		})
	}
}

// testSBOM checks that the list of parts is that of the program.
func testSBOM(t *testing.T, path, program string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (*bom.Metadata.Component.Hashes)[0].Value, fmt.Sprintf("%x", sha256.Sum256(data)); got != want {
		t.Errorf("the SBOM is of the program %s, not of %s", got, want)
	}
	versions := map[string]string{}
	for _, c := range *bom.Components {
		versions[c.Name] = c.Version
	}
	for _, name := range []string{"std", "k8s.io/apiserver", "go.etcd.io/etcd/server/v3", "idiomorph"} {
		if versions[name] == "" {
			t.Errorf("the SBOM does not have %s", name)
		}
	}
}

func TestChart(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(*distDir, "certplane-*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("charts: %v, %v", found, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "certplane-"), ".tgz")
	dir := filepath.Join(untarGzip(t, found[0]), "certplane")
	about, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\nversion: " + version + "\n", "\nappVersion: v" + version + "\n"} {
		if !strings.Contains(string(about), line) {
			t.Errorf("Chart.yaml has no line %q:\n%s", line, about)
		}
	}
	for _, name := range []string{"values.yaml", "values.schema.json", "templates/_helpers.tpl", "templates/generated/deployment.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestDebian(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skipf("the Debian package is not unpacked: %v", err)
	}
	root := t.TempDir()
	path := released(t, "_linux_"+runtime.GOARCH+".deb")
	if out, err := exec.Command(dpkg, "-x", path, root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	control, err := exec.Command(dpkg, "--field", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, control)
	}
	if !strings.Contains(string(control), "Package: certplane\n") {
		t.Errorf("the package is described as:\n%s", control)
	}
	runs(t, filepath.Join(root, "usr/bin/certplane"))
	for _, name := range []string{
		"etc/certplane/server.yaml", "usr/lib/sysusers.d/certplane.conf", "usr/lib/tmpfiles.d/certplane.conf", "usr/share/man/man1/certplane-serve.1.gz", "usr/share/bash-completion/completions/certplane",
		"usr/share/zsh/vendor-completions/_certplane", "usr/share/fish/vendor_completions.d/certplane.fish", "usr/share/doc/certplane/copyright",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	testUnits(t, root)
	testUser(t, root)
	testInstall(t, path)
}

// testUnits checks the units of an unpacked package.
func testUnits(t *testing.T, root string) {
	t.Helper()
	units, err := filepath.Glob(filepath.Join(root, unitDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(units) != 4 {
		t.Errorf("the package has the units %v", units)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(archiveProgram)) {
			t.Errorf("%s starts %s, where the package has no program", unit, archiveProgram)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("the units are not verified: %v", err)
		return
	}
	// The package brings neither these units nor kill.
	for _, name := range []string{"network-online.target", "multi-user.target", "timers.target", "sysinit.target", "basic.target", "shutdown.target", "time-set.target", "time-sync.target", "-.mount", "tmp.mount"} {
		if err := os.WriteFile(filepath.Join(root, unitDir, name), []byte("[Unit]\nDescription="+name+"\nDefaultDependencies=no\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kill := filepath.Join(root, "bin/kill")
	if err := os.MkdirAll(filepath.Dir(kill), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kill, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, unit := range units {
		names = append(names, filepath.Base(unit))
	}
	verify := exec.Command(analyze, append([]string{"verify", "--root=" + root, "--man=no", "--recursive-errors=no"}, names...)...)
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %v\n%s", verify, err, out)
	}
}

// testUser makes the user and the folder of an unpacked package.
func testUser(t *testing.T, root string) {
	t.Helper()
	for _, program := range []string{"systemd-sysusers", "systemd-tmpfiles"} {
		if _, err := exec.LookPath(program); err != nil || os.Getuid() != 0 {
			t.Logf("the user is not made: that needs root and %s", program)
			return
		}
	}
	for _, command := range []*exec.Cmd{
		exec.Command("systemd-sysusers", "--root="+root, "certplane.conf"),
		exec.Command("systemd-tmpfiles", "--root="+root, "--create", "certplane.conf"),
	} {
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	info, err := os.Stat(filepath.Join(root, "var/backups/certplane"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of backups has the mode %v", info.Mode())
	}
}

// testInstall installs the package into a folder, with its scripts, if this user
// may do that.
func testInstall(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("the package is not installed: only root can do that")
		return
	}
	root := t.TempDir()
	admin := filepath.Join(root, "var/lib/dpkg")
	for _, dir := range []string{"updates", "info", "triggers"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(admin, "status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// Its scripts would run in this root, which has no shell.
	for _, action := range [][]string{{"--unpack", path}, {"--verify", "certplane"}} {
		command := exec.Command("dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-depends", "--log=/dev/null"}, action...)...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "etc/certplane/server.yaml.dpkg-new")); err != nil {
		t.Errorf("server.yaml is not a configuration file: %v", err)
	}
}

func TestRPM(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		data, err := os.ReadFile(released(t, "_linux_"+arch+".rpm"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(data, []byte{0xed, 0xab, 0xee, 0xdb}) {
			t.Errorf("the package for %s does not begin as an RPM", arch)
		}
	}
	rpm, err := exec.LookPath("rpm")
	if err != nil {
		t.Skipf("RPM packages are not read: %v", err)
	}
	query := exec.Command(rpm, "--query", "--list", "--package", released(t, "_linux_amd64.rpm"))
	out, err := query.CombinedOutput()
	if err != nil || !strings.Contains(string(out), packageProgram+"\n") {
		t.Errorf("%v: %v\n%s", query, err, out)
	}
}

func TestImage(t *testing.T) {
	file, err := os.Open(released(t, "_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := untar(t, file)
	var layout imagespec.ImageLayout
	read(t, filepath.Join(dir, imagespec.ImageLayoutFile), &layout)
	if layout.Version != imagespec.ImageLayoutVersion {
		t.Errorf("the layout is of version %q", layout.Version)
	}
	var index, images imagespec.Index
	read(t, filepath.Join(dir, imagespec.ImageIndexFile), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations[imagespec.AnnotationRefName] == "" {
		t.Fatalf("the index has %+v", index.Manifests)
	}
	readBlob(t, dir, index.Manifests[0], &images)
	if len(images.Manifests) != 2 {
		t.Errorf("there are %d images", len(images.Manifests))
	}
	for _, found := range images.Manifests {
		var manifest imagespec.Manifest
		readBlob(t, dir, found, &manifest)
		var config imagespec.Image
		readBlob(t, dir, manifest.Config, &config)
		if config.Config.User != imageUser || config.OS != "linux" || config.Architecture != found.Platform.Architecture {
			t.Errorf("the image for %s is configured as %+v", found.Platform.Architecture, config)
		}
		root := untarGzip(t, blob(t, dir, manifest.Layers[0]))
		if _, err := os.Stat(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil {
			t.Error(err)
		}
		if config.Architecture == runtime.GOARCH {
			runs(t, filepath.Join(root, config.Config.Entrypoint[0]))
		}
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// blob returns the path of a blob, whose bytes are those of its descriptor.
func blob(t *testing.T, dir string, d imagespec.Descriptor) string {
	t.Helper()
	path := filepath.Join(dir, imagespec.ImageBlobsDir, d.Digest.Algorithm().String(), d.Digest.Encoded())
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d.Digest.Algorithm().FromBytes(data) != d.Digest || int64(len(data)) != d.Size {
		t.Errorf("the blob %s is another", d.Digest)
	}
	return path
}

func readBlob(t *testing.T, dir string, d imagespec.Descriptor, into any) {
	t.Helper()
	read(t, blob(t, dir, d), into)
}
