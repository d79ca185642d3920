package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// chartName is the name of the Helm chart and of the folder in its archive.
const chartName = "certplane"

// writeChart writes the Helm chart as an archive, with the name that Helm expects.
func (r release) writeChart(src source) error {
	files, err := r.chartFiles(filepath.Join(src.dir, "deploy", "helm", chartName))
	if err != nil {
		return err
	}
	tarball, err := archive(chartName, files, r.time)
	if err != nil {
		return err
	}
	data, err := compress(tarball)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, chartName+"-"+r.chartVersion()+".tgz"), data, 0o644)
}

// chartVersion returns the version as charts have it.
func (r release) chartVersion() string { return strings.TrimPrefix(r.version, "v") }

func (r release) chartFiles(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if data, err = r.versioned(data); err != nil {
				return err
			}
		}
		files = append(files, file{filepath.ToSlash(name), data, 0o644})
		return nil
	})
	return files, err
}

// versioned returns Chart.yaml with the versions of the release.
func (r release) versioned(data []byte) ([]byte, error) {
	for from, to := range map[string]string{
		"\nversion: 0.0.0\n":     "\nversion: " + r.chartVersion() + "\n",
		"\nappVersion: v0.0.0\n": "\nappVersion: " + r.version + "\n",
	} {
		if bytes.Count(data, []byte(from)) != 1 {
			return nil, fmt.Errorf("Chart.yaml has no line %q", strings.TrimSpace(from))
		}
		data = bytes.Replace(data, []byte(from), []byte(to), 1)
	}
	return data, nil
}
