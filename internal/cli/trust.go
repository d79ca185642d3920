package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/target"
	"github.com/certplane/certplane/internal/cli/trust"
	"github.com/certplane/certplane/internal/duration"
)

const trustLong = `Writes the roots with which certificates of a signer are verified: those in all
ClusterTrustBundles of the signer, each once. While the CA of the signer changes
there are several, and clients need all of them.

It works with any Kubernetes API server that has ClusterTrustBundles. It requires
list on clustertrustbundles.

Exit codes: 0 written, 1 error, 2 wrong usage.`

const trustExample = `  certplane trust server > roots.pem
  certplane trust kubernetes.io/kubelet-serving -o table`

// NewTrust returns the verb that writes the roots of a signer.
func NewTrust(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	output, patience := "pem", 5*time.Second
	cmd := &cobra.Command{
		Use:     "trust SIGNER",
		Short:   "Write the roots of a signer, from all of its trust bundles",
		Long:    trustLong,
		Example: trustExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkOutput(output, trust.Formats)
			if len(args) != 1 || args[0] == "" {
				err = errors.New("name one signer, as in 'certplane trust server'")
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return trust.Run(cmd.Context(), trust.Config{
				Signer: target.SignerName(args[0]), Output: output, Connect: connection.api, Wait: patience, Now: time.Now(), Stdout: streams.Out,
				Kubectl: func(words ...string) string { return connection.line(append([]string{"kubectl"}, words...)...) },
			})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addOutputOf(cmd, &output, trust.Formats, "pem, der (a single root) or table (subject, expiry and fingerprint).")
	duration.Var(flags, &patience, "wait", patience, "How long to wait for the first trust bundle of the signer.")
	connection.addTo(flags)
	return cmd
}
