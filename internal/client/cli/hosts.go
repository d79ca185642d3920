package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/hosts"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const hostsLong = `Lists the hosts of "certplane agent": whether the agent reports, when it was last
seen, its version, how many certificates it keeps, when the first of them expires,
and the first problem that it has reported.

A host is NotReady 50 seconds after its agent has ended or cannot reach the server.
Its certificates are then shown as the agent last reported them. A host that runs the
agent with --once is NotReady between two runs. A host is Degraded if its agent reports
files that are missing or cannot be written.

-o wide also shows the certificate that expires first and the age of the oldest
revocation list; -o json and -o yaml show all of each host. It requires list on nodes, on pods of all namespaces
and on leases of the namespace kube-node-lease.

Exit codes: 0 shown, 1 error, 2 wrong usage.`

// NewHosts returns the hosts verb.
func NewHosts(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	format := ""
	cmd := &cobra.Command{
		Use:               "hosts",
		Short:             "List the hosts of agents and when their certificates expire",
		Long:              hostsLong,
		Example:           "  certplane hosts\n  certplane hosts -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(format, listFormats); format != "" && err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			config, err := connection.clientConfig(streams.ErrOut)
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("connecting to the server: %w", err)
			}
			found, err := hosts.List(cmd.Context(), client)
			if err != nil {
				return err
			}
			return print.Found(streams.Out, format, found, func() string { return hosts.Text(found, format == print.Wide, time.Now()) })
		},
	}
	addOutputOf(cmd, &format, listFormats, "One of "+strings.Join(listFormats, ", ")+". Default: a table.")
	connection.addTo(cmd.Flags())
	return cmd
}
