package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// rootsPermissions are the permissions of a file of roots, which all users may read.
const rootsPermissions = 0o644

// Check returns an error for options that exclude each other.
func (cfg Config) Check() error {
	switch {
	case cfg.Watch && cfg.Out == "":
		return errors.New("--watch updates a file: name it with --out roots.pem")
	case cfg.Watch && cfg.Output != "pem":
		return errors.New("--watch writes PEM: omit -o")
	case cfg.Exec != "" && !cfg.Watch:
		return errors.New("--exec runs after changes: it needs --watch")
	case cfg.Every < time.Second:
		return fmt.Errorf("--every is %s, want at least 1s", cfg.Every)
	}
	return nil
}

// follower keeps a file of roots equal to the signer's trust bundles.
type follower struct {
	Config
	api explain.Reader
	// owed is true if the command has not succeeded since the last change of the file.
	owed bool
	// reported is the last problem: each is reported once until it is solved.
	reported string
}

// follow reads the bundles periodically until ctx ends. It reports failures, and retries
// at the next read. If the signer has no bundles, the file stays unchanged.
func (cfg Config) follow(ctx context.Context, api explain.Reader) error {
	f := &follower{Config: cfg, api: api}
	every := time.NewTicker(cfg.Every)
	defer every.Stop()
	for {
		err := f.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.report(err)
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (f *follower) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == f.reported:
	case text == "":
		fmt.Fprintln(f.Stderr, "Solved: "+print.Printable(f.reported))
	default:
		fmt.Fprintf(f.Stderr, "Error: %s\nIt is retried in %s.\n", print.Printable(text), f.Every)
	}
	f.reported = text
}

// once writes the file if the roots have changed, and runs the command after a change.
func (f *follower) once(ctx context.Context) error {
	roots, err := f.roots(ctx, f.api)
	if err != nil {
		return exit.Advise("reading the trust bundles of "+f.Signer, err)
	}
	if len(roots) == 0 {
		return fmt.Errorf("found no ClusterTrustBundle of the signer %s: %s stays unchanged", f.Signer, f.Out)
	}
	changed, err := f.put(roots)
	if err != nil {
		return err
	}
	if changed {
		fmt.Fprintf(f.Stderr, "Wrote %s: %d roots of %s\n", f.Out, len(roots), f.Signer)
	}
	if f.owed = (f.owed || changed) && f.Exec != ""; !f.owed {
		return nil
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	f.owed = false
	return nil
}

// put replaces the file atomically, and reports whether it has changed.
func (cfg Config) put(roots []Root) (changed bool, err error) {
	data, err := cfg.encode(roots)
	if err != nil {
		return false, err
	}
	switch now, err := os.ReadFile(cfg.Out); {
	case err == nil && bytes.Equal(now, data):
		return false, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("reading the present roots: %w", err)
	}
	if err := atomicfile.Write(cfg.Out, data, rootsPermissions); err != nil {
		return false, fmt.Errorf("writing %s: %w", cfg.Out, err)
	}
	return true, nil
}

func (f *follower) run(ctx context.Context) error {
	command := exec.CommandContext(ctx, "/bin/sh", "-c", f.Exec)
	command.Stdout, command.Stderr = f.Stderr, f.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("running --exec %s: %w", print.Quote(f.Exec), err)
	}
	return nil
}
