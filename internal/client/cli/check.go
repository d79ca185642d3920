package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const checkLong = `Checks a server, its certificates and your own credential for problems now or soon, and
prints how to fix each: clocks, expiring certificates and CAs, Signers, issuers, roots,
waiting requests, Certificates, webhooks, hosts, the space in the store, and recorded
certificates without a successor. Dry runs of requests test whether admission answers.

It works with any Kubernetes API server, changes nothing, and takes at most 10 seconds.
Checks that your rights do not permit are "not checked". On the server's machine,
--data-dir also checks the data folder: its modes, the free space, the expiry of its
CAs, and the newest backup.

--pre checks whether a cluster is ready for the objects of "certplane manifests".

Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage.`

const checkExample = `  certplane check
  certplane check --data-dir /var/lib/certplane
  certplane check --pre --context production
  certplane check -o json`

// Checked holds functions from other parts of the program that the check verb calls.
type Checked struct {
	// Manifests returns the objects of "certplane manifests".
	Manifests func() ([]runtime.Object, error)
	// NewestBackup returns when the newest backup in a folder was made.
	NewestBackup func(dir string) (time.Time, error)
}

// usualBackups is where certplane-backup.service writes.
const usualBackups = "/var/backups/certplane"

// NewCheck returns the check verb.
func NewCheck(streams genericiooptions.IOStreams, of Checked) *cobra.Command {
	var connection connection
	var format, backups string
	var pre bool
	cmd := &cobra.Command{
		Use:               "check",
		Short:             "Check a server and its certificates for problems now or soon",
		Long:              checkLong,
		Example:           checkExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(format); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if backups != "" && connection.dataDir == "" {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("--backups also needs --data-dir, which checks the server's own machine"))
			}
			cfg := check.Config{Line: connection.line, Controllers: connection.controllers, Backups: cmp.Or(backups, usualBackups), NewestBackup: of.NewestBackup, Now: time.Now}
			if pre {
				cfg.Manifests = of.Manifests
			}
			if connection.dataDir != "" {
				var err error
				if cfg.Dir, err = DataDir(connection.dataDir); err != nil {
					return err
				}
			}
			log.SetLogger(klog.Background()) // without one, clients print a stack after half a minute
			cfg.Client, cfg.ClientErr = connection.clientConfig(io.Discard)
			report, err := check.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if err := print.Found(streams.Out, format, report, report.Text); err != nil {
				return err
			}
			if failed := report.Count[check.Failed]; failed > 0 {
				return fmt.Errorf("checks that failed: %d", failed)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&pre, "pre", false, "Check whether a cluster is ready for the objects of 'certplane manifests'.")
	flags.StringVar(&backups, "backups", "", "Folder with the server's backups, with --data-dir. Default: "+usualBackups+".")
	addOutput(cmd, &format)
	connection.addControllersTo(flags)
	connection.addTo(flags)
	return cmd
}
