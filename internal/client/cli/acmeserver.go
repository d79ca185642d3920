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
	"github.com/certplane/certplane/internal/client/cli/acmeserver"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/rights"
)

const acmeEndpointsLong = `Shows the endpoints of the ACME server: whether they accept orders or why not, the URL
for clients, the fingerprint with which hosts trust the server, the admission of
accounts, the signers, and the number of accounts and orders.

It changes nothing. It requires get and list on acmeendpoints; the counts require list
on acmeorders and acmeaccounts.

Exit codes: 0 shown, whatever their state, 1 error, 2 wrong usage.`

const acmeAllowLong = `Prints the Roles with which the owner of a namespace lets the ACME server act as one of
its ServiceAccounts: the rights to get tokens for it, and to create and read the Secrets
of its external keys. With --endpoint, it also prints the rights that the ServiceAccount
needs for orders there; only an administrator can grant these.

It writes nothing without --apply. It requires list on acmeexternalkeys to find the
Secrets, and with --endpoint get on acmeendpoints. You can grant only rights that you
hold, unless you have the verbs escalate and bind.

Exit codes: 0 printed or written, 1 error, 2 wrong usage.`

const acmeDecideLong = `%s

It requires get and patch on acmeaccounts, and the verb approve on the endpoint among
acmeendpoints.certplane.dev.

Exit codes: 0 decided, 1 error, 2 wrong usage.`

// acmeFor holds the flags with which verbs for the ACME server find it.
type acmeFor struct {
	connection connection
	output     string
}

// config returns the configuration shared by these verbs. It does not call the server.
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

// verb returns a command with the flags shared by these verbs after its own. Only some of
// them have --output.
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
		Use: "allow SERVICEACCOUNT", Short: "Print or write the Roles that let the ACME server act as a ServiceAccount", Long: acmeAllowLong,
		Example: "  certplane acme allow -n shop web --apply\n  certplane acme allow -n shop web --endpoint corp --autoapprove | kubectl apply -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkOne("ServiceAccount", args, f.output)
			switch {
			case err != nil:
			case cfg.AutoApprove && cfg.Endpoint == "":
				err = errors.New("--autoapprove is a right to an endpoint: name it with --endpoint")
			case cfg.Apply && f.output != "":
				err = errors.New("--output prints the objects: omit --apply")
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
		flags.StringSliceVar(&cfg.Secrets, "secret", nil, "Secret of an external key, in addition to those of the ServiceAccount's existing keys.")
		flags.StringVar(&cfg.Endpoint, "endpoint", "", "AcmeEndpoint that the ServiceAccount may use.")
		flags.BoolVar(&cfg.AutoApprove, "autoapprove", false, "Let its requests be approved automatically, with --endpoint.")
		flags.BoolVar(&cfg.Apply, "apply", false, "Write the objects.")
		flags.StringVar(&cfg.Controllers, "controllers-namespace", "", "Namespace of the accounts of certplane's controllers. Default: "+rights.ServeNamespace+" for 'certplane serve', and in a cluster the namespace of certplane's webhooks, or "+rights.ClusterNamespace+".")
	})
}

// controllersNamespace returns the namespace of the accounts of certplane's controllers.
// Only accounts in one namespace get rights: another namespace could belong to another
// user.
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
// without the flags that select the server and its user.
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
		"Approves accounts of ACME clients. Endpoints with accounts.admission Approval accept\norders only from approved accounts. ACCOUNT is the name of an AcmeAccount, or the\naccount URL of its client.", v1alpha1.AcmeDecisionApproved)
}

func newACMERevoke(streams genericiooptions.IOStreams) *cobra.Command {
	return newACMEDecide(streams, "revoke", "Revoke ACME accounts",
		"Revokes accounts of ACME clients: the server then refuses their requests and ends their\nopen orders. Their certificates stay valid. ACCOUNT is the name of an AcmeAccount, or\nthe account URL of its client.", v1alpha1.AcmeDecisionRevoked)
}

func newACMEDecide(streams genericiooptions.IOStreams, verb, short, does string, decision v1alpha1.AcmeDecision) *cobra.Command {
	var f acmeFor
	cfg := acmeserver.DecideConfig{Decision: decision}
	return f.verb(&cobra.Command{
		Use: verb + " ACCOUNT...", Short: short, Long: fmt.Sprintf(acmeDecideLong, does),
		Example: "  certplane acme " + verb + " 4kq2x7vbn3mzr5tw6ysd2fghjk --reason 'asked for by the web team'",
		RunE: func(cmd *cobra.Command, accounts []string) error {
			if len(accounts) == 0 {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("name the accounts: '%s' lists them", f.config(streams).Command("kubectl", "get", "acmeaccounts")))
			}
			cfg.Config, cfg.Accounts = f.config(streams), accounts
			return acmeserver.Decide(cmd.Context(), cfg)
		},
	}, false, func(flags *pflag.FlagSet) {
		flags.StringVar(&cfg.Reason, "reason", "", "Reason for the decision, as text for people.")
	})
}
