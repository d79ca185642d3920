package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/status"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const policyStatusLong = `Shows, for each signer named by policies and each signer of Kubernetes: the policies, the
outcome of requests that no Allow policy matches, and the stages that enforce policies.
It then lists requests that wait for people, exceptions with their expiry, certificates
renewed without people, and in clusters the users who could vote as another user, by
impersonation or with a token.

It reads only the API, which does not show which controllers run and how they are
configured. Statements that depend on this have a question mark or a note.

Exit codes: 0 shown, 2 the policies could not be read.`

func newPolicyStatus(streams genericiooptions.IOStreams) *cobra.Command {
	var c connection
	cfg := status.Config{Stdout: streams.Out}
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the policies of each signer, and the outcome of requests without a policy",
		Long:    policyStatusLong,
		Example: "  certplane policy status\n  certplane policy status -o json",
		Args:    noArgs,
		RunE: policyRun(func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(cfg.Output); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			api, err := c.policyAPI()
			if err != nil {
				return err
			}
			cfg.API, cfg.Now, cfg.Version = api, time.Now(), c.serverVersion
			return status.Run(cmd.Context(), cfg)
		}),
	}
	addOutput(cmd, &cfg.Output)
	c.addTo(cmd.Flags())
	return cmd
}

// serverVersion returns the version of the API server.
func (c *connection) serverVersion(context.Context) (string, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return "", err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", err
	}
	info, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}
