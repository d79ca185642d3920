package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
)

const (
	// spaceWarning and spaceFailed are limits of the free space: a server's store grows
	// to 8 GiB, and needs half a gigabyte at the start.
	spaceWarning = 2 << 30
	spaceFailed  = 256 << 20
	// backupWarning is the maximum age of the newest backup: a backup is made each night.
	backupWarning = 48 * time.Hour
)

// folder checks the data folder of a server on this machine.
func folder(c *checker) []Check {
	info, err := os.Stat(string(c.Dir))
	if err != nil {
		return []Check{{Result: Failed, Text: fmt.Sprintf("reading the data folder: %v", err), Next: []string{"Name the folder of the server with --data-dir."}}}
	}
	if _, err := os.ReadDir(string(c.Dir)); errors.Is(err, fs.ErrPermission) {
		return []Check{{Result: NotChecked, Text: fmt.Sprintf("you may not read %s", c.Dir), Next: []string{"Check as the user who runs the server."}}}
	}
	checks := []Check{c.modes(info)}
	checks = append(checks, c.lock(), c.space())
	checks = append(checks, c.ownCAs()...)
	return append(checks, c.backups()...)
}

// modes checks that no other user reads the keys.
func (c *checker) modes(info fs.FileInfo) Check {
	const others fs.FileMode = 0o077
	if info.Mode().Perm()&others != 0 {
		return Check{Result: Failed, Text: fmt.Sprintf("other users may use %s (mode %04o)", c.Dir, info.Mode().Perm()), Next: []string{print.CommandLine("chmod", "700", string(c.Dir))}}
	}
	for _, pattern := range []string{"*.key", "*.yaml"} {
		files, _ := filepath.Glob(filepath.Join(c.Dir.PKI(), pattern)) // only the pattern can be wrong
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Mode().Perm()&others != 0 {
				return Check{Result: Failed, Text: fmt.Sprintf("other users may read %s (mode %04o)", file, info.Mode().Perm()), Next: []string{print.CommandLine("chmod", "600", file)}}
			}
		}
	}
	return ok("only its owner can read %s and the keys in it", c.Dir)[0]
}

func (c *checker) lock() Check {
	owner, used, err := c.Dir.InUse()
	switch {
	case err != nil:
		return Check{Result: NotChecked, Text: err.Error()}
	case used:
		return ok("a server uses it%s", owner)[0]
	}
	return Check{Result: Warning, Text: "no server uses it", Next: []string{"To start one: certplane serve " + print.CommandLine("--data-dir", string(c.Dir))}}
}

func (c *checker) space() Check {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(string(c.Dir), &stat); err != nil {
		return Check{Result: NotChecked, Text: fmt.Sprintf("reading the free space: %v", err)}
	}
	left := uint64(stat.Bavail) * uint64(stat.Bsize) // the types depend on the system
	return diskSpace(left, "its file system")
}

// ownCAs checks the CA certificates in the folder.
func (c *checker) ownCAs() []Check {
	var bad []Check
	n := 0
	files, _ := filepath.Glob(filepath.Join(c.Dir.PKI(), "*.crt")) // only the pattern can be wrong
	for _, file := range files {
		name := filepath.Base(file)
		if name == datadir.IssuingCAs {
			continue // includes former CAs
		}
		data, err := os.ReadFile(file)
		if err != nil {
			bad = append(bad, Check{Result: Failed, Text: err.Error()})
			continue
		}
		certs, err := pki.ParseBundle(data)
		if err != nil {
			bad = append(bad, Check{Result: Failed, Text: fmt.Sprintf("%s: %v", name, err)})
			continue
		}
		if !certs[0].IsCA {
			continue
		}
		n++
		if result := c.ending(certs[0].NotBefore, certs[0].NotAfter); result != OK {
			bad = append(bad, Check{Result: result, Text: fmt.Sprintf("the CA %s %s", strings.TrimSuffix(name, ".crt"), c.until(certs[0].NotAfter)), Next: []string{"See docs/rotate-ca.md to replace a CA."}})
		}
	}
	return summed(bad, "%s in it are valid", print.Number(n, "CA"))
}

// backups checks the age of the newest backup, if the folder of backups is known.
func (c *checker) backups() []Check {
	if c.Backups == "" || c.NewestBackup == nil {
		return nil
	}
	newest, err := c.NewestBackup(c.Backups)
	const next = "See docs/backup.md to make one every night."
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Check{{Result: NotChecked, Text: fmt.Sprintf("the folder %s does not exist: name the folder of backups with --backups", c.Backups), Next: []string{next}}}
	case err != nil:
		return []Check{{Result: NotChecked, Text: err.Error()}}
	case newest.IsZero():
		return []Check{{Result: Warning, Text: "found no backup in " + c.Backups, Next: []string{next}}}
	}
	check := Check{Result: OK, Text: fmt.Sprintf("the newest backup in %s was made %s", c.Backups, print.Ago(c.now, newest))}
	if c.now.Sub(newest) > backupWarning {
		check.Result = Warning
	}
	return []Check{check.advised(next)}
}
