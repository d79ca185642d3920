package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/cli/signer"
	"github.com/certplane/certplane/internal/cli/target"
	"github.com/certplane/certplane/internal/duration"
)

const signerCreateLong = `Creates a Signer for the DNS names below a domain: an object that signs with a CA of
its own, which the server makes, keeps and replaces. Requests need approval, as for
any signer; what the Signer refuses, nobody can approve.

Certificates are for servers, with --client for clients, with both flags for both.
The subject is empty or one of the DNS names. Wildcards are refused.

With --dry-run client or -o the Signer is printed, for git and "kubectl apply"; that
needs no server. Signers can do more: see 'kubectl explain signers.certplane.dev.spec'.

Exit codes: 0 created, 1 error, 2 wrong usage.`

const signerCreateExample = `  certplane signer create hosts --dns-suffix hosts.example.com
  certplane signer create mesh --dns-suffix mesh.example.com --server --client --max-duration 7d -o yaml > mesh.yaml`

// NewSigner returns the signer verb with its subcommands.
func NewSigner(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signer",
		Short: "Create and list signers of your own",
	}
	cmd.AddCommand(newSignerCreate(streams), newSignerList(streams))
	return cmd
}

func newSignerCreate(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cfg := signer.Config{Options: signer.Options{MaxDuration: 90 * 24 * time.Hour}, DryRun: "none", Stdout: streams.Out}
	cfg.Connect, cfg.Command = connection.signers, connection.line
	cmd := &cobra.Command{
		Use:               "create NAME --dns-suffix DOMAIN",
		Short:             "Create a Signer for the DNS names below a domain",
		Long:              signerCreateLong,
		Example:           signerCreateExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := completeSigner(&cfg, args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return signer.Create(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&cfg.Suffixes, "dns-suffix", nil, "Domain below which it signs for all names. Repeatable. Required.")
	flags.BoolVar(&cfg.Server, "server", false, "Certificates are for servers. The default.")
	flags.BoolVar(&cfg.Client, "client", false, "Certificates are for clients.")
	duration.Var(flags, &cfg.MaxDuration, "max-duration", cfg.MaxDuration, "Longest lifetime, and that of requests that ask for none.")
	duration.Var(flags, &cfg.Propagation, "propagation", 0, "How long the root of a next CA is published before that CA signs, such as 14d. That of the server if not given.")
	flags.StringVar(&cfg.SignerName, "signer-name", "", "Name by which requests choose it. DOMAIN/NAME if not given, such as example.com/hosts for hosts.example.com.")
	flags.StringVar(&cfg.DryRun, "dry-run", cfg.DryRun, "none, client (print the Signer) or server (have the server check it).")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{"none", "client", "server"}, cobra.ShellCompDirectiveNoFileComp)))
	addOutputOf(cmd, &cfg.Output, print.Formats, "One of "+strings.Join(print.Formats, ", ")+": print the Signer and write nothing.")
	connection.addTo(flags)
	return cmd
}

func newSignerList(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cfg := signer.Config{Stdout: streams.Out}
	cfg.Connect, cfg.Command = connection.signers, connection.line
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List the Signers",
		Long:              "Lists the Signers of the server: their names, the names that requests give, whether\nthey are ready, and when their CAs end.\n\nRequests can name a Signer by either name. It requires list on signers.certplane.dev.\n\nExit codes: 0 listed, 1 error, 2 wrong usage.",
		Example:           "  certplane signer list\n  certplane signer list -o yaml",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(cfg.Output); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return signer.List(cmd.Context(), cfg, time.Now())
		},
	}
	addOutput(cmd, &cfg.Output)
	connection.addTo(cmd.Flags())
	return cmd
}

// declaredSigners returns the declared Signers, if the caller may list them.
func (c *connection) declaredSigners(ctx context.Context) (all []v1alpha1.Signer, known bool) {
	connected, err := c.signers()
	if err != nil {
		return nil, false
	}
	list := &v1alpha1.SignerList{}
	err = connected.List(ctx, list)
	return list.Items, err == nil
}

// askSigners bounds the question which Signers there are.
const askSigners = 5 * time.Second

// signerName returns the full name of a signer that a person names: full names as they are,
// otherwise the signer name of the Signer of that name. If the caller may not list
// Signers, the name is returned as it is.
func (c *connection) signerName(ctx context.Context, name string) (string, error) {
	if full := target.SignerName(name); strings.Contains(full, "/") || full == "" || full == target.AnySigner {
		return full, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askSigners)
	defer cancel()
	all, known := c.declaredSigners(ctx)
	declared, near := target.Declared(name, all)
	switch {
	case declared != nil:
		return declared.Spec.SignerName, nil
	case known && near != "":
		return "", fmt.Errorf("there is no Signer %q: did you mean %s?", name, near)
	}
	return name, nil
}

// signerNames is signerName for several names.
func (c *connection) signerNames(ctx context.Context, names []string) (full []string, err error) {
	for _, name := range names {
		if name, err = c.signerName(ctx, name); err != nil {
			return nil, err
		}
		full = append(full, name)
	}
	return full, nil
}

// completeSigner checks the options before a Signer is created.
func completeSigner(cfg *signer.Config, args []string) error {
	switch {
	case len(args) != 1 || args[0] == "":
		return errors.New("name one Signer, as in 'certplane signer create hosts --dns-suffix hosts.example.com'")
	case !slices.Contains([]string{"none", "client", "server"}, cfg.DryRun):
		return fmt.Errorf("--dry-run is %q, want none, client or server", cfg.DryRun)
	case cfg.Output != "" && cfg.DryRun == "server":
		return errors.New("-o prints the Signer without a server: leave --dry-run away")
	}
	cfg.Name = args[0]
	if _, err := signer.New(cfg.Options); err != nil {
		return err
	}
	return print.CheckFormat(cfg.Output)
}

// signers connects to the server for Signers. It does not call the server yet.
func (c *connection) signers() (client.Client, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return nil, err
	}
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Signer"), meta.RESTScopeRoot)
	connected, err := client.New(config, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}
