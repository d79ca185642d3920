package backup

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// keyFile is a file of the folder pki.
type keyFile struct {
	mode fs.FileMode
	data []byte
}

// keyFiles are the files of a folder pki, by their names in it.
type keyFiles map[string]keyFile

// maxKeyFile bounds the size of a file that is read as one with keys.
const maxKeyFile = 4 << 20

// readKeyFiles reads the files of a folder, without those that are being
// written.
func readKeyFiles(dir string) (keyFiles, error) {
	files := keyFiles{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		info, err := os.Stat(path) // follows links
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
			return fmt.Errorf("%s is not a file with keys", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = keyFile{info.Mode().Perm(), data}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the folder of keys: %w", err)
	}
	return files, nil
}

func (f keyFiles) equal(other keyFiles) bool {
	return maps.EqualFunc(f, other, func(a, b keyFile) bool { return bytes.Equal(a.data, b.data) })
}

// write writes a file. Its name comes from an archive, so it must stay inside
// dir.
func (k keyFile) write(dir, name string) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%w: %q is not a valid name of a file with keys", errDamaged, name)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the keys: %w", err)
	}
	return atomicfile.Write(path, k.data, k.mode&0o644|0o600)
}

// checkPairs returns an error for a certificate whose key file holds another
// key.
func checkPairs(dir string) error {
	certs, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		return fmt.Errorf("listing certificates: %w", err)
	}
	for _, file := range certs {
		keyPEM, err := os.ReadFile(strings.TrimSuffix(file, ".crt") + ".key")
		if os.IsNotExist(err) {
			continue // such as a root's key, which may be elsewhere
		}
		if err != nil {
			return fmt.Errorf("reading a private key: %w", err)
		}
		certPEM, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a certificate: %w", err)
		}
		chain, err := pki.ParseBundle(certPEM)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		key, err := pki.ParsePrivateKey(keyPEM)
		if err != nil {
			return fmt.Errorf("reading the key of %s: %w", file, err)
		}
		if !pki.SameKey(key.Public(), chain[0].PublicKey) {
			return fmt.Errorf("the private key of %s belongs to another certificate", filepath.Base(file))
		}
	}
	return nil
}
