package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/process/duration"
)

const tokenCreateLong = `Makes a bootstrap token and prints it as a kubeconfig with which a new node
requests its first certificate, which is approved automatically. The token
authenticates as the user system:bootstrap:ID in the group system:bootstrappers.

With --out, it is written to a file with mode 0600: anyone with the token can join
as any node. --node limits it to one node.

The kubeconfig contains the server's URL that this command uses. If nodes reach the
server by another name, give it with --server; that name must be in the server's
certificate.`

const tokenCreateExample = `  # A kubelet that joins within the next hour
  certplane token create --ttl 1h --server https://certplane.example.com:6443 --out bootstrap.kubeconfig
  kubelet --bootstrap-kubeconfig bootstrap.kubeconfig --kubeconfig /var/lib/kubelet/kubeconfig ...

  # A host of "certplane agent" that can join as edge-1 only
  certplane token create --ttl 1h --node edge-1 --out edge-1.kubeconfig

  # The token alone
  certplane token create --print-kubeconfig=false`

// NewToken returns the token verb with its subcommands.
func NewToken(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Manage bootstrap tokens, with which new nodes get certificates",
	}
	cmd.AddCommand(newTokenCreate(streams), newTokenList(streams), newTokenDelete(streams))
	return cmd
}

// tokenCreation holds the options of "token create".
type tokenCreation struct {
	connection      connection
	options         token.Options
	printKubeconfig bool
	server          string
	place           token.Place
}

func newTokenCreate(streams genericiooptions.IOStreams) *cobra.Command {
	c := tokenCreation{options: token.Options{TTL: 24 * time.Hour}, printKubeconfig: true}
	cmd := &cobra.Command{
		Use:               "create",
		Short:             "Create a bootstrap token and print a kubeconfig for kubelets",
		Long:              tokenCreateLong,
		Example:           tokenCreateExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.complete(); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return c.run(cmd.Context(), streams, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	duration.Var(flags, &c.options.TTL, "ttl", c.options.TTL, "Lifetime of the token, like 1h or 7d. 0 means no limit.")
	flags.StringVar(&c.options.Description, "description", "", "Description of the token's purpose.")
	flags.StringSliceVar(&c.options.Groups, "groups", nil, "Additional groups of the token's user; each starts with system:bootstrappers:.")
	flags.StringVar(&c.options.Node, "node", "", "Name of the only node that can join with the token. Default: any node. \"certplane serve\" enforces it; Kubernetes' API server does not.")
	flags.StringVar(&c.place.Path, "out", "", "File to write, created with mode 0600. It must not exist. Default: standard output.")
	flags.BoolVar(&c.place.Overwrite, "overwrite", false, "Replace the file of --out if it exists.")
	flags.BoolVar(&c.printKubeconfig, "print-kubeconfig", c.printKubeconfig, "Print a kubeconfig with the token. If false, print only the token.")
	flags.StringVar(&c.server, "server", "", "URL of the server in the printed kubeconfig. Default: the URL that this command uses.")
	c.connection.addTo(flags)
	return cmd
}

// complete checks the options before a token is created.
func (c *tokenCreation) complete() error {
	if err := c.options.Validate(); err != nil {
		return err
	}
	if c.server != "" {
		url, err := token.ServerURL(c.server)
		if err != nil {
			return err
		}
		c.server = url
	}
	if c.place.Path == "" {
		if c.place.Overwrite {
			return errors.New("--overwrite is for the file of --out")
		}
		return nil
	}
	return c.place.Check()
}

func (c *tokenCreation) run(ctx context.Context, streams genericiooptions.IOStreams, now time.Time) error {
	secrets, config, err := c.connection.secrets(streams.ErrOut)
	if err != nil {
		return err
	}
	created, err := token.Create(ctx, secrets, c.options, now)
	if err != nil {
		return err
	}
	server := at(config, c.server)
	data := []byte(created + "\n")
	if c.printKubeconfig {
		if data, err = token.Kubeconfig(created, c.options, server, now); err != nil {
			return err
		}
		if isLoopback(server.Host) {
			fmt.Fprintf(streams.ErrOut, "Only this machine reaches the server at %s: for other nodes, give --server.\n", server.Host)
		}
	}
	if c.place.Path == "" {
		_, err = streams.Out.Write(data)
		return err
	}
	if err := c.place.Write(data); err != nil {
		// The token was not delivered, so it must not work.
		return errors.Join(err, token.Delete(ctx, secrets, streams.ErrOut, created))
	}
	_, err = fmt.Fprintf(streams.Out, "%s: bootstrap token %s, works %s\n", c.place.Path, token.ID(created), c.options.Until(now))
	return err
}

// at returns config with another address of the same server.
func at(config *rest.Config, server string) *rest.Config {
	if server == "" {
		return config
	}
	moved := rest.CopyConfig(config)
	moved.Host, moved.ServerName = server, ""
	return moved
}

func isLoopback(server string) bool {
	parsed, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

func newTokenList(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List bootstrap tokens without their secret part",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			secrets, _, err := connection.secrets(streams.ErrOut)
			if err != nil {
				return err
			}
			return token.List(cmd.Context(), secrets, streams.Out, time.Now())
		},
	}
	connection.addTo(cmd.Flags())
	return cmd
}

func newTokenDelete(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	cmd := &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete bootstrap tokens",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if len(ids) == 0 {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("name the token to delete by its ID"))
			}
			secrets, _, err := connection.secrets(streams.ErrOut)
			if err != nil {
				return err
			}
			return token.Delete(cmd.Context(), secrets, streams.Out, ids...)
		},
	}
	connection.addTo(cmd.Flags())
	return cmd
}

// secrets connects to the Secrets of namespace kube-system, where bootstrap
// tokens are stored, and returns the configuration of the connection.
func (c *connection) secrets(warnings io.Writer) (token.Secrets, *rest.Config, error) {
	config, err := c.clientConfig(warnings)
	if err != nil {
		return nil, nil, err
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return client.Secrets(metav1.NamespaceSystem), config, nil
}
