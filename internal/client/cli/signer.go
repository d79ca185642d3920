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
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/signer"
	"github.com/certplane/certplane/internal/client/cli/target"
	"github.com/certplane/certplane/internal/process/duration"
)

const signerCreateLong = `Creates a Signer for the DNS names below a domain: an object that signs with a CA of
its own; the server creates, stores and replaces the CA. Requests need approval, as for
any signer; approval does not help a request that the Signer refuses.

Certificates are for servers, with --client for clients, with both flags for both.
The subject is empty or one of the DNS names. Wildcards are refused.

With --dry-run client or -o it prints the Signer, for git and "kubectl apply"; that needs
no server. Signers have more options: see 'kubectl explain signers.certplane.dev.spec'.

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
	flags.StringSliceVar(&cfg.Suffixes, "dns-suffix", nil, "Domain whose DNS names the Signer signs for. Repeatable. Required.")
	flags.BoolVar(&cfg.Server, "server", false, "Issue certificates for servers. The default.")
	flags.BoolVar(&cfg.Client, "client", false, "Issue certificates for clients.")
	duration.Var(flags, &cfg.MaxDuration, "max-duration", cfg.MaxDuration, "Longest lifetime, and the default for requests without one.")
	duration.Var(flags, &cfg.Propagation, "propagation", 0, "Time between publishing the root of a new CA and signing with it, such as 14d. Default: the server's.")
	flags.StringVar(&cfg.SignerName, "signer-name", "", "Name of the signer in requests. Default: DOMAIN/NAME, such as example.com/hosts for hosts.example.com.")
	flags.StringVar(&cfg.DryRun, "dry-run", cfg.DryRun, "Create no Signer: client (print it) or server (let the server check it). none creates it.")
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
		Long:              "Lists the Signers of the server: their names, their signer names, whether they are\nready, and when their CAs expire.\n\nRequests can use either name. It requires list on signers.certplane.dev.\n\nExit codes: 0 listed, 1 error, 2 wrong usage.",
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

// askSigners is the timeout for listing the Signers.
const askSigners = 5 * time.Second

// signerName returns the full name of a signer: a full name unchanged, otherwise the
// signer name of the Signer with that name. If the caller may not list Signers, it
// returns the name unchanged.
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
		return "", fmt.Errorf("found no Signer named %q: did you mean %s?", name, near)
	}
	return name, nil
}

// signerNames calls signerName for several names.
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
		return errors.New("-o prints the Signer without a server: omit --dry-run")
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
