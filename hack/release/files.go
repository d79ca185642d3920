package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// file is a file of archives and packages.
type file struct {
	// name is that in the archive, with slashes.
	name string
	data []byte
	mode os.FileMode
}

// commonFiles returns the documentation, manual pages and completions, which the
// program writes.
func commonFiles(ctx context.Context, src source, programs []program, dir string) ([]file, error) {
	var files []file
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		data, err := os.ReadFile(filepath.Join(src.dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, data, 0o644})
	}
	licenses, err := thirdPartyLicenses(ctx, src, programs)
	if err != nil {
		return nil, err
	}
	files = append(files, file{"THIRD_PARTY_LICENSES", licenses, 0o644})
	host, err := runnable(programs)
	if err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := output(ctx, ".", nil, host.path, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/certplane." + shell, []byte(text + "\n"), 0o644})
	}
	pages, err := manualPages(ctx, src, host, dir)
	return append(files, pages...), err
}

func manualPages(ctx context.Context, src source, host program, dir string) ([]file, error) {
	epoch := "SOURCE_DATE_EPOCH=" + strconv.FormatInt(src.time.Unix(), 10)
	if _, err := output(ctx, ".", []string{epoch}, host.path, "man", "--dir", dir); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s man has written no pages", host.path)
	}
	var files []file
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/man1/" + filepath.Base(page), data, 0o644})
	}
	return files, nil
}

// deployed are the files of the folder deploy that hosts need.
var deployed = []string{"certplane.service", "certplane-agent.service", "certplane-backup.service", "certplane-backup.timer", "certplane.sysusers", "certplane.tmpfiles", "server.yaml"}

func deployFiles(src source) ([]file, error) {
	var files []file
	for _, name := range deployed {
		data, err := os.ReadFile(filepath.Join(src.dir, "deploy", name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"deploy/" + name, data, 0o644})
	}
	return files, nil
}

// compress returns data in the format of gzip, without a time.
func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
