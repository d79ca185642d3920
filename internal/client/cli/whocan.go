package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/sources"
	"github.com/certplane/certplane/internal/client/cli/whocan"
	"github.com/certplane/certplane/internal/rights"
)

const whoCanLong = `Lists the users, groups and service accounts that hold all RBAC rights needed to
%s
It shows the bindings and roles that grant these rights, and the missing rights of
subjects with a part of them.

These rights are: %s

It works with any Kubernetes API server and changes nothing. It requires list on
clusterroles and clusterrolebindings, and for requests in namespaces on roles and
rolebindings. It reads RBAC alone: other authorizers can permit and refuse more.

Exit codes: 0 shown, whatever the result, 1 error, 2 wrong usage.`

// NewWhoCan returns the who-can verb with its subcommands.
func NewWhoCan(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "who-can",
		Short:   "List users who may request, approve or sign certificates, or get one for a name",
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
		Short:             "List users who may " + v.short,
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
	cmd.Flags().BoolVar(&cfg.Impersonators, "impersonators", false, "Also list users who can impersonate one of them.")
	addOutput(cmd, &cfg.Output)
	connection.addTo(cmd.Flags())
	return cmd
}

const whoCanGetLong = `Lists the Signers, issuers and endpoints of the ACME server that issue a certificate for
a name, the users who may request it there, and the users who approve. NAME is a DNS
name, a wildcard such as *.corp.example, an IP address, an e-mail address or a URI.

It evaluates a request for the name alone, with an empty subject, like the server does:
by the Signer's rules, the certificate policies, and the names that an endpoint allows.
Conditions that depend on the request are shown after "if": rules that read the
requester, expressions of policies, proofs of ACME clients.

It works with any Kubernetes API server and changes nothing. It requires list on
Signers, certificate policies, issuers, ACME endpoints and external keys, and on roles
and their bindings: the ClusterRole certplane-auditor permits this. Kinds that cannot be
read are listed.

Exit codes: 0 shown, whatever the result, 1 error, 2 wrong usage.`

func newWhoCanGet(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var output string
	cmd := &cobra.Command{
		Use:               "get NAME",
		Short:             "List users who can get a certificate for a name, and its sources",
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
