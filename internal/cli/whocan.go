package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/cli/whocan"
	"github.com/certplane/certplane/internal/rights"
)

const whoCanLong = `Shows which users, groups and service accounts hold all rights of RBAC that are
needed to %s It shows the bindings and roles
that give these rights, and what those lack who hold a part of them.

These rights are: %s

It works with any Kubernetes API server and changes nothing. It requires list on
clusterroles and clusterrolebindings, and for requests in namespaces on roles and
rolebindings. It reads RBAC alone: other authorizers can permit and refuse more.

Exit codes: 0 shown, whoever may, 1 error, 2 wrong usage.`

// NewWhoCan returns the who-can verb with its subcommands.
func NewWhoCan(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "who-can",
		Short:   "Show who may request, approve or sign certificates, by RBAC",
		Example: "  certplane who-can approve example.com/web\n  certplane who-can approve issuers.cert-manager.io/shop.ca",
	}
	for _, v := range grantVerbs() {
		cmd.AddCommand(newWhoCanVerb(streams, v))
	}
	return cmd
}

func newWhoCanVerb(streams genericiooptions.IOStreams, v grantVerb) *cobra.Command {
	var target targetFlags
	var connection connection
	var cfg whocan.Config
	named := "SIGNER"
	switch {
	case rights.OnPolicies(v.verb):
		named = "POLICY"
	case !rights.OnRequests(v.verb):
		named = "ENDPOINT"
	}
	cmd := &cobra.Command{
		Use:               v.verb + " " + named,
		Short:             "Show who may " + v.short,
		Long:              fmt.Sprintf(whoCanLong, v.does, v.needs),
		Example:           "  certplane who-can " + v.verb + " " + v.whoCan,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, err := target.targets(v.verb, &connection, args...)
			if err == nil && len(targets) != 1 {
				err = fmt.Errorf("name one %s, as in '%s %s'", named, cmd.CommandPath(), v.whoCan)
			}
			if err = errors.Join(err, print.CheckFormat(cfg.Output)); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg.Target, cfg.Connect, cfg.Stdout = targets[0], connection.rbac, streams.Out
			cfg.Command = func(words ...string) string { return print.CommandLine(connection.command(words...)...) }
			return whocan.Run(cmd.Context(), cfg)
		},
	}
	cmd.Flags().SortFlags = false
	target.addTo(cmd, v.verb)
	cmd.Flags().BoolVar(&cfg.Impersonators, "impersonators", false, "Also list who can act as one of those who may.")
	addOutput(cmd, &cfg.Output)
	connection.addTo(cmd.Flags())
	return cmd
}
