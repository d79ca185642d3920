package acmeserver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// Store is the trust store of a system: a folder for files with one root each, and the
// command that loads them.
type Store struct {
	// Root is the folder to use as /.
	Root string
	// Run runs a command.
	Run func(name string, args ...string) error
}

// SystemStore is the trust store of this host.
func SystemStore() Store {
	return Store{Root: "/", Run: func(name string, args ...string) error {
		output, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(output)))
		}
		return nil
	}}
}

// stores are the supported trust stores. The first with an existing folder is used.
var stores = []struct {
	folder  string
	command []string
}{
	{"usr/local/share/ca-certificates", []string{"update-ca-certificates"}},     // Debian, Ubuntu, Alpine
	{"etc/pki/ca-trust/source/anchors", []string{"update-ca-trust", "extract"}}, // Fedora, Red Hat
	{"usr/share/pki/trust/anchors", []string{"update-ca-certificates"}},         // SUSE
	{"etc/ca-certificates/trust-source/anchors", []string{"update-ca-trust"}},   // Arch
}

// Add adds roots to the trust store, each in a file named after a host and the root's
// fingerprint. Existing files stay.
func (s Store) Add(out io.Writer, host string, roots []*x509.Certificate) error {
	for _, store := range stores {
		folder := filepath.Join(s.Root, store.folder)
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			continue
		}
		for _, root := range roots {
			path := filepath.Join(folder, fmt.Sprintf("certplane-%s-%s.crt", fileName(host), pki.Fingerprint(root)[:16]))
			if err := atomicfile.Write(path, pki.EncodeCertificates(root), 0o644); err != nil {
				return unwritten(err)
			}
			fmt.Fprintf(out, "%s has the root %s%s\n", path, digests, pki.Fingerprint(root))
		}
		if err := s.Run(store.command[0], store.command[1:]...); err != nil {
			return exit.WithNext(fmt.Errorf("updating the trust store: %w", err), "The files were written. Run this command as root: "+strings.Join(store.command, " "))
		}
		fmt.Fprintf(out, "This host trusts them. To undo this, delete these files and run: %s\n", strings.Join(store.command, " "))
		return nil
	}
	return exit.WithNext(errors.New("unknown trust store of this system"), "Write the roots to a file with --out FILE, and pass it to the ACME client or to the system's own tool.")
}

func unwritten(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return exit.WithNext(fmt.Errorf("writing to the trust store: %w", err), "It requires root: run it with sudo, or write to a file with --out FILE.")
	}
	return fmt.Errorf("writing to the trust store: %w", err)
}

// fileName returns a text without characters that are special in paths.
func fileName(host string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, host)
}
