package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/cli/sources"
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
		Short:   "Show who may request, approve or sign certificates, and who can get one for a name",
		Example: "  certplane who-can approve example.com/web\n  certplane who-can approve issuers.cert-manager.io/shop.ca\n  certplane who-can get '*.corp.example'",
	}
	cmd.AddCommand(newWhoCanGet(streams))
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
			targets, err := target.targets(cmd.Context(), v.verb, &connection, args...)
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

const whoCanGetLong = `Shows from which Signers, issuers and endpoints of the ACME server somebody can
get a certificate for a name, who may request it there, and who approves. NAME is a
DNS name, a wildcard such as *.corp.example, an IP address, an e-mail address or a URI.

A request for the name alone, with an empty subject, is judged as requests are: by
the Signer's rules, the certificate policies, and the names that an endpoint allows.
What only a request answers is shown after "if": rules that read who requests,
expressions of policies, proofs of ACME clients.

It works with any Kubernetes API server and changes nothing. It requires list on
Signers, certificate policies, issuers, ACME endpoints and external keys, and on roles
and their bindings: the ClusterRole certplane-auditor permits this. What cannot be read
is named.

Exit codes: 0 shown, whoever can, 1 error, 2 wrong usage.`

func newWhoCanGet(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var output string
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "Show who can get a certificate for a name, and from where",
		Long:              whoCanGetLong,
		Example:           "  certplane who-can get '*.corp.example'\n  certplane who-can get 10.0.0.7 -o json",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("give one name, as in '%s web.corp.example'", cmd.CommandPath()))
			}
			name, err := sources.ParseName(args[0])
			if err = errors.Join(err, print.CheckFormat(output)); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			api, err := connection.api()
			if err != nil {
				return err
			}
			report, err := sources.Find(cmd.Context(), api, name, time.Now())
			if err != nil {
				return err
			}
			return print.Found(streams.Out, output, report, report.Text)
		},
	}
	cmd.Flags().SortFlags = false
	addOutput(cmd, &output)
	connection.addTo(cmd.Flags())
	return cmd
}
