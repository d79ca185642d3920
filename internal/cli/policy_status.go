package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/policy/status"
	"github.com/certplane/certplane/internal/cli/print"
)

const policyStatusLong = `Shows for each signer that policies name, and for those of Kubernetes: the policies,
what becomes of the requests that no Allow policy is about, and the stages at which
policies are enforced. Then the requests that wait for people, the exceptions with their
ends, the certificates that were renewed without people, and in clusters who could vote
as somebody else, by impersonation or with a token.

It says only what the API shows. Which controllers run, and how they are configured, it
does not show: what depends on it has a question mark or says so.

Exit codes: 0 shown, 2 the policies could not be read.`

func newPolicyStatus(streams genericiooptions.IOStreams) *cobra.Command {
	var c connection
	cfg := status.Config{Stdout: streams.Out}
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the policies of each signer, and what becomes of the rest",
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
