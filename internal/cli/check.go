package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/check"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const checkLong = `Checks a server, what it issues and your own credential, and says what to do about
what does not work or soon will not: clocks, certificates and CAs that end, Signers,
issuers, roots, requests that wait, Certificates, webhooks, hosts, the space in the
store, and recorded certificates without a newer one. Dry runs of requests find out
whether admission answers.

It works with any Kubernetes API server, changes nothing, and takes 10 seconds at
most. What you may not read is
"not checked". On the machine of the server, --data-dir also checks the data folder:
its modes, the space that is left, the ends of its CAs, and the newest backup.

--pre checks whether a cluster is ready for what "certplane manifests" prints.

Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage.`

const checkExample = `  certplane check
  certplane check --data-dir /var/lib/certplane
  certplane check --pre --context production
  certplane check -o json`

// Checked is what the check verb needs of parts of the program that are not clients.
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
		Short:             "Check a server and what it issues for what does not work or soon will not",
		Long:              checkLong,
		Example:           checkExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(format); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if backups != "" && connection.dataDir == "" {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("--backups: give --data-dir too, which checks the server's own machine"))
			}
			cfg := check.Config{Line: connection.line, Backups: cmp.Or(backups, usualBackups), NewestBackup: of.NewestBackup, Now: time.Now}
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
	flags.BoolVar(&pre, "pre", false, "Check whether a cluster is ready for what 'certplane manifests' prints.")
	flags.StringVar(&backups, "backups", "", "Folder with the backups of the server, with --data-dir. Default: "+usualBackups+".")
	addOutput(cmd, &format)
	connection.addTo(flags)
	return cmd
}
