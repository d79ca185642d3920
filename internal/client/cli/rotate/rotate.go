// Package rotate changes the keys that encrypt what a server stores.
package rotate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/store/encryption"
)

// Config is the configuration of one run of the command.
type Config struct {
	// File is the file with the keys that the server uses.
	File string
	// Server is the server that uses the keys.
	Server Server
	// OneStep stops after each change of the file, so that it can be copied to
	// other servers.
	OneStep bool
	// Out is where progress is printed.
	Out io.Writer
}

// Server has the methods of the server that a rotation needs.
type Server interface {
	// AwaitFile returns when the server uses the file with this hash.
	AwaitFile(ctx context.Context, hash string) error
	// StoreAgain makes the server store all objects of the resources again and
	// returns their number. It is safe to repeat.
	StoreAgain(ctx context.Context, resources []string) (int, error)
}

// Run changes the keys: it adds a new key, makes it the encrypting key once the
// server knows it, has everything stored again, and removes the old key. The
// file alone shows the progress, so that the next run continues an interrupted
// rotation. At no time is anything stored that the keys in the file cannot
// decrypt.
func Run(ctx context.Context, cfg Config) error {
	unlock, err := lock(filepath.Dir(cfg.File))
	if err != nil {
		return err
	}
	defer unlock()
	for begun := false; ; begun = true {
		keys, err := cfg.await(ctx)
		if err != nil {
			return err
		}
		if !begun && keys.Stage() != encryption.Settled {
			fmt.Fprintln(cfg.Out, "Going on with the rotation that was begun before.")
		}
		if err := cfg.step(ctx, keys); err != nil {
			return err
		}
		if cfg.OneStep || keys.Stage() == encryption.Settled {
			return nil
		}
	}
}

// await reads the file and waits until the server uses it.
func (cfg Config) await(ctx context.Context) (*encryption.Keys, error) {
	data, err := os.ReadFile(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("reading the encryption keys: %w", err)
	}
	keys, err := encryption.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", cfg.File, err)
	}
	if err := cfg.Server.AwaitFile(ctx, fmt.Sprintf("sha256:%x", sha256.Sum256(data))); err != nil {
		return nil, fmt.Errorf("waiting for the server to use %s: %w", cfg.File, err)
	}
	return keys, nil
}

// step brings the keys to the next stage.
func (cfg Config) step(ctx context.Context, keys *encryption.Keys) error {
	switch keys.Stage() {
	case encryption.Settled:
		keys.Add()
		fmt.Fprintln(cfg.Out, "Adding a new key.")
	case encryption.Added:
		keys.Promote()
		fmt.Fprintln(cfg.Out, "Encrypting with the new key from now on.")
	case encryption.Promoted:
		if err := cfg.storeAgain(ctx, keys.Covered()); err != nil {
			return err
		}
		keys.Drop()
		fmt.Fprintln(cfg.Out, "Removing the old key: what is stored can be read with the new one alone.")
	}
	if err := write(cfg.File, keys); err != nil {
		return err
	}
	if cfg.OneStep {
		fmt.Fprint(cfg.Out, "Now bring the keys to all other servers of this store: 'certplane pki export' here, 'certplane pki import' there.\n")
	}
	return nil
}

// storeAgain stores everything twice: a write that was in progress while the
// server changed keys may have completed after the first pass.
func (cfg Config) storeAgain(ctx context.Context, resources []string) error {
	var count int
	for range 2 {
		var err error
		if count, err = cfg.Server.StoreAgain(ctx, resources); err != nil {
			return fmt.Errorf("storing everything again: %w", err)
		}
	}
	fmt.Fprintf(cfg.Out, "Stored again: %s, %d objects.\n", strings.Join(resources, ", "), count)
	return nil
}

// write replaces the file and keeps its owner: the server, which may run as
// another user.
func write(file string, keys *encryption.Keys) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("reading the encryption keys: %w", err)
	}
	data, err := keys.Encode()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(file, data, 0o600); err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		if err := os.Chown(file, int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("giving the encryption keys back to their owner: %w", err)
		}
	}
	return nil
}

// lock prevents a second rotation. The lock ends with the process.
func lock(dir string) (unlock func(), err error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of the encryption keys: %w", err)
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		folder.Close()
		return nil, fmt.Errorf("another rotation of the keys in %s is running: %w", dir, err)
	}
	return func() { folder.Close() }, nil
}
