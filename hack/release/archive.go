package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// writeArchive writes the archive for systems without a package.
func (r release) writeArchive(src source, p program) error {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	files := append(slices.Clone(r.common), file{"certplane", binary, 0o755})
	if p.os == "linux" {
		deploy, err := deployFiles(src)
		if err != nil {
			return err
		}
		files = append(files, deploy...)
	}
	name := r.name("_" + p.os + "_" + p.arch)
	tarball, err := archive(filepath.Base(name), files, r.time)
	if err != nil {
		return err
	}
	data, err := compress(tarball)
	if err != nil {
		return err
	}
	return os.WriteFile(name+".tar.gz", data, 0o644)
}

// archive returns the files as a tar archive, below a folder unless it is empty.
func archive(folder string, files []file, mtime time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		name := f.name
		if folder != "" {
			name = folder + "/" + name
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: mtime, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
