package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/trust"
	"github.com/certplane/certplane/internal/process/duration"
)

const trustLong = `Writes the roots that verify a signer's certificates: the roots in all
ClusterTrustBundles of the signer, each once. While the signer changes its CA there are
several roots, and clients need all of them.

With --watch it keeps the file of --out equal to the trust bundles until a signal ends
the command. After each change a shell runs the command of --exec, for programs that read
the file only when they start. A failure is reported, and the command is run again.

With -o table, the state of a root is "next, signs from TIME" if its Signer does not sign
with that CA yet. This requires list on Signers.

It works with any Kubernetes API server that has ClusterTrustBundles. It requires
list on clustertrustbundles.

Exit codes: 0 written, or ended by a signal, 1 error, 2 wrong usage.`

const trustExample = `  certplane trust server > roots.pem
  certplane trust kubernetes.io/kubelet-serving -o table
  certplane trust mesh --watch --out roots.pem --exec 'nginx -s reload'`

// NewTrust returns the verb that writes the roots of a signer.
func NewTrust(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cfg := trust.Config{Output: "pem", Wait: 5 * time.Second, Every: 30 * time.Second, Stdout: streams.Out, Stderr: streams.ErrOut}
	cfg.Connect = connection.api
	cfg.Kubectl = func(words ...string) string { return connection.line(append([]string{"kubectl"}, words...)...) }
	cmd := &cobra.Command{
		Use:     "trust SIGNER",
		Short:   "Write the roots of a signer, from all of its trust bundles",
		Long:    trustLong,
		Example: trustExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := errors.Join(checkOutput(cfg.Output, trust.Formats), cfg.Check())
			if len(args) != 1 || args[0] == "" {
				err = errors.New("name one signer, as in 'certplane trust server'")
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if cfg.Signer, err = connection.signerName(cmd.Context(), args[0]); err != nil {
				return err
			}
			cfg.Now = time.Now()
			return trust.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addOutputOf(cmd, &cfg.Output, trust.Formats, "pem, der (a single root) or table (subject, expiry and fingerprint).")
	flags.StringVar(&cfg.Out, "out", "", "File for the roots, replaced atomically. Default: standard output.")
	flags.BoolVar(&cfg.Watch, "watch", false, "Update the file of --out whenever the trust bundles change.")
	flags.StringVar(&cfg.Exec, "exec", "", "Shell command to run after each change of --out, with --watch.")
	duration.Var(flags, &cfg.Every, "every", cfg.Every, "Interval between reads of the trust bundles, with --watch.")
	duration.Var(flags, &cfg.Wait, "wait", cfg.Wait, "Time to wait for the first trust bundle of the signer.")
	connection.addTo(flags)
	return cmd
}
