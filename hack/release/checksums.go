package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// checksumsFile can be checked by "sha256sum --check".
const checksumsFile = "SHA256SUMS"

// writeChecksums writes the checksums of all files of the release.
func (r release) writeChecksums() error {
	entries, err := os.ReadDir(r.dir) // sorted
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(r.dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), entry.Name())
	}
	return os.WriteFile(filepath.Join(r.dir, checksumsFile), out.Bytes(), 0o644)
}
