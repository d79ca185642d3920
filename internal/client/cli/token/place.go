package token

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/certplane/certplane/internal/process/atomicfile"
)

// Place is the file for a new token, or for other credentials.
type Place struct {
	// Path is the path of the file.
	Path string
	// Overwrite allows Write to replace an existing file.
	Overwrite bool
	// Final is true if the verb has no flag that sets Overwrite.
	Final bool
}

// Check returns an error if the file cannot be written, before a token is
// created that would be lost.
func (p Place) Check() error {
	info, err := os.Lstat(p.Path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("--out %s is a folder: name a file in it", p.Path)
	case err == nil && !p.Overwrite:
		return p.taken()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--out: %w", err)
	}
	if err := atomicfile.CheckDir(filepath.Dir(p.Path)); err != nil {
		return fmt.Errorf("--out %s: %w", p.Path, err)
	}
	return nil
}

// Write writes the file with permissions for its owner only.
func (p Place) Write(data []byte) error {
	write := atomicfile.Create
	if p.Overwrite {
		write = atomicfile.Write
	}
	err := write(p.Path, data, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return p.taken()
	}
	return err
}

func (p Place) taken() error {
	if p.Final {
		return fmt.Errorf("%s exists already and is not overwritten: name another file, or remove it", p.Path)
	}
	return fmt.Errorf("--out %s exists already: name another file, or replace it with --overwrite", p.Path)
}

// ServerURL returns the URL for a value of --server. It completes HOST:PORT to an https
// URL, because a token is sent only over TLS.
func ServerURL(text string) (string, error) {
	whole := text
	if !strings.Contains(text, "://") {
		whole = "https://" + text
	}
	server, err := url.Parse(whole)
	switch {
	case err != nil || server.Hostname() == "":
		return "", fmt.Errorf("--server %q is not the URL of a server: want one such as https://certplane.example.com:6443", text)
	case server.Scheme != "https":
		return "", fmt.Errorf("--server %q must begin with https://: credentials are sent there, and without TLS others could read them", text)
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return "", fmt.Errorf("--server must be https://HOST:PORT, without a user, a query or a fragment")
	}
	return server.String(), nil
}
