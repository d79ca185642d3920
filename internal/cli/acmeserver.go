package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/cli/acmeserver"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

const acmeEndpointsLong = `Shows the endpoints of the ACME server: whether they take orders, and if not why, the
URL that clients are given, the fingerprint by which hosts come to trust the server,
who may have accounts, what signs, and how many accounts and orders there are.

It changes nothing. It requires get and list on acmeendpoints, and to count, list on
acmeorders and acmeaccounts.

Exit codes: 0 shown, whatever their state, 1 error, 2 wrong usage.`

const acmeAllowLong = `Prints the Roles by which the owner of a namespace lets the ACME server act as a
ServiceAccount of it: to get tokens for it, and to make and read the Secrets of its
external keys. With --endpoint, it also prints the rights that the ServiceAccount
needs for orders there, which only an administrator can give.

It writes nothing without --apply. It requires list on acmeexternalkeys to find the
Secrets, and with --endpoint get on acmeendpoints. You can grant only rights that you
hold, unless you have the verbs escalate and bind.

Exit codes: 0 printed or written, 1 error, 2 wrong usage.`

const acmeDecideLong = `%s

It requires get and patch on acmeaccounts, and the verb approve on the endpoint among
acmeendpoints.certplane.dev.

Exit codes: 0 decided, 1 error, 2 wrong usage.`

// acmeFor is how verbs about the ACME server find it.
type acmeFor struct {
	connection connection
	output     string
}

// config returns what all these verbs need. It does not call the server.
func (f *acmeFor) config(streams genericiooptions.IOStreams) acmeserver.Config {
	return acmeserver.Config{
		Connect: func() (client.Client, error) {
			config, err := f.connection.clientConfig(streams.ErrOut)
			if err != nil {
				return nil, err
			}
			return acmeserver.Connect(config)
		},
		Command: func(words ...string) string { return print.CommandLine(f.connection.command(words...)...) },
		Output:  f.output, Now: time.Now, Stdout: streams.Out, Stderr: streams.ErrOut,
	}
}

// verb returns a command with the flags that all these verbs have, after its own. Only
// some of them have --output.
func (f *acmeFor) verb(cmd *cobra.Command, hasOutput bool, own func(*pflag.FlagSet)) *cobra.Command {
	flags := cmd.Flags()
	flags.SortFlags, cmd.ValidArgsFunction = false, cobra.NoFileCompletions
	own(flags)
	if hasOutput {
		addOutput(cmd, &f.output)
	}
	f.connection.addTo(flags)
	return cmd
}

func newACMEEndpoints(streams genericiooptions.IOStreams) *cobra.Command {
	var f acmeFor
	return f.verb(&cobra.Command{
		Use: "endpoints [NAME...]", Short: "Show the endpoints of the ACME server, and whether they work", Long: acmeEndpointsLong,
		Example: "  certplane acme endpoints\n  certplane acme endpoints corp -o json",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := print.CheckFormat(f.output); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if err := namesAlone(cmd, names); err != nil {
				return err
			}
			return acmeserver.Endpoints(cmd.Context(), f.config(streams), names)
		},
	}, true, func(*pflag.FlagSet) {})
}

func newACMEAllow(streams genericiooptions.IOStreams) *cobra.Command {
	var f acmeFor
	var cfg acmeserver.AllowConfig
	var namespace string
	return f.verb(&cobra.Command{
		Use: "allow SERVICEACCOUNT", Short: "Print or write the Roles by which the ACME server may act as a ServiceAccount", Long: acmeAllowLong,
		Example: "  certplane acme allow -n shop web --apply\n  certplane acme allow -n shop web --endpoint corp --autoapprove | kubectl apply -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkOne("ServiceAccount", args, f.output)
			switch {
			case err != nil:
			case cfg.AutoApprove && cfg.Endpoint == "":
				err = errors.New("--autoapprove is a right to an endpoint: name it with --endpoint")
			case cfg.Apply && f.output != "":
				err = errors.New("--output prints the objects: leave --apply away")
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if err := namesAlone(cmd, args); err != nil {
				return err
			}
			cfg.Config, cfg.Namespace, cfg.ServiceAccount = f.config(streams), f.connection.in(namespace), args[0]
			if cfg.Output == "" {
				cfg.Output = "yaml"
			}
			if cfg.Controllers, err = f.connection.controllersNamespace(cmd.Context(), cfg.Controllers); err != nil {
				return err
			}
			cfg.Again = againFor(cmd, args...)
			return acmeserver.Allow(cmd.Context(), cfg)
		},
	}, true, func(flags *pflag.FlagSet) {
		addNamespace(flags, &namespace, "the ServiceAccount")
		flags.StringSliceVar(&cfg.Secrets, "secret", nil, "Secret of an external key, besides those of the keys that there are for the ServiceAccount.")
		flags.StringVar(&cfg.Endpoint, "endpoint", "", "AcmeEndpoint that the ServiceAccount may use.")
		flags.BoolVar(&cfg.AutoApprove, "autoapprove", false, "With --endpoint: its requests need no person.")
		flags.BoolVar(&cfg.Apply, "apply", false, "Write the objects.")
		flags.StringVar(&cfg.Controllers, "controllers-namespace", "", "Namespace of the accounts of certplane's controllers. If not given, "+rights.ServeNamespace+" for 'certplane serve', and in a cluster that of certplane's webhooks, or "+rights.ClusterNamespace+".")
	})
}

// controllersNamespace returns the namespace of the accounts of certplane's
// controllers. Rights are given to accounts of one namespace alone: another one could
// be somebody else's.
func (c *connection) controllersNamespace(ctx context.Context, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	version, err := c.serverVersion(ctx)
	if err != nil {
		return "", exit.Advise("asking the server for its version", err)
	}
	if strings.HasSuffix(version, buildinfo.VersionSuffix) {
		return rights.ServeNamespace, nil
	}
	api, err := c.policyAPI()
	if err != nil {
		return "", err
	}
	for _, namespace := range policies.ControllerNamespaces(ctx, api) {
		if namespace != rights.ServeNamespace && namespace != rights.ClusterNamespace {
			return namespace, nil
		}
	}
	return rights.ClusterNamespace, nil
}

// againFor returns the command line with its arguments and flags for another user:
// without the flags that choose the server and its user.
func againFor(cmd *cobra.Command, args ...string) string {
	words := append(strings.Fields(cmd.CommandPath()), args...)
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "kubeconfig", "context", dataDirFlag:
			return
		}
		if flag.Value.Type() == "bool" {
			words = append(words, "--"+flag.Name)
			return
		}
		for _, value := range flagValues(flag) {
			words = append(words, "--"+flag.Name, value)
		}
	})
	return print.CommandLine(words...)
}

func newACMEApprove(streams genericiooptions.IOStreams) *cobra.Command {
	return newACMEDecide(streams, "approve", "Approve ACME accounts that wait for a person",
		"Approves accounts of ACME clients, which endpoints with accounts.admission Approval\nlet order only then. ACCOUNT is the name of an AcmeAccount, or the URL that its client\nhas of it.", v1alpha1.AcmeDecisionApproved)
}

func newACMERevoke(streams genericiooptions.IOStreams) *cobra.Command {
	return newACMEDecide(streams, "revoke", "Revoke ACME accounts",
		"Revokes accounts of ACME clients: from then on their requests are refused, and their\nopen orders end. Certificates that they have stay valid. ACCOUNT is the name of an\nAcmeAccount, or the URL that its client has of it.", v1alpha1.AcmeDecisionRevoked)
}

func newACMEDecide(streams genericiooptions.IOStreams, verb, short, does string, decision v1alpha1.AcmeDecision) *cobra.Command {
	var f acmeFor
	cfg := acmeserver.DecideConfig{Decision: decision}
	return f.verb(&cobra.Command{
		Use: verb + " ACCOUNT...", Short: short, Long: fmt.Sprintf(acmeDecideLong, does),
		Example: "  certplane acme " + verb + " 4kq2x7vbn3mzr5tw6ysd2fghjk --reason 'asked for by the web team'",
		RunE: func(cmd *cobra.Command, accounts []string) error {
			if len(accounts) == 0 {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("name the accounts: '%s' shows them", f.config(streams).Command("kubectl", "get", "acmeaccounts")))
			}
			cfg.Config, cfg.Accounts = f.config(streams), accounts
			return acmeserver.Decide(cmd.Context(), cfg)
		},
	}, false, func(flags *pflag.FlagSet) {
		flags.StringVar(&cfg.Reason, "reason", "", "The reason of the decision, for people.")
	})
}
