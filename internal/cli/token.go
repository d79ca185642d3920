package cli

import (
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

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/token"
)

const tokenCreateLong = `Makes a bootstrap token and prints it as a kubeconfig with which a new node
requests its first certificate, which it gets without a person's approval. The
token stands for the user system:bootstrap:ID in the group system:bootstrappers.

The kubeconfig names the server as this command reaches it. If nodes reach it
by another name, say so with --server; that name must be in the server's
certificate.`

const tokenCreateExample = `  # A kubelet that joins within the next hour
  certplane token create --ttl 1h --server https://certplane.example.com:6443 > bootstrap.kubeconfig
  kubelet --bootstrap-kubeconfig bootstrap.kubeconfig --kubeconfig /var/lib/kubelet/kubeconfig ...

  # The token alone
  certplane token create --print-kubeconfig=false`

// NewToken returns the token verb and what is below it.
func NewToken(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Manage the bootstrap tokens with which new nodes get certificates",
	}
	cmd.AddCommand(newTokenCreate(streams), newTokenList(streams), newTokenDelete(streams))
	return cmd
}

func newTokenCreate(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var server string
	wish, printKubeconfig := token.Wish{TTL: 24 * time.Hour}, true
	cmd := &cobra.Command{
		Use:               "create",
		Short:             "Make a bootstrap token and print a kubeconfig for kubelets",
		Long:              tokenCreateLong,
		Example:           tokenCreateExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wish.Validate(); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			secrets, config, err := connection.secrets(streams.ErrOut)
			if err != nil {
				return err
			}
			now := time.Now()
			created, err := token.Create(cmd.Context(), secrets, wish, now)
			if err != nil {
				return err
			}
			if !printKubeconfig {
				_, err := fmt.Fprintln(streams.Out, created)
				return err
			}
			return printBootstrapKubeconfig(streams, created, wish, at(config, server), now)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&wish.TTL, "ttl", wish.TTL, "How long the token works, like 1h. 0 is forever.")
	flags.StringVar(&wish.Description, "description", "", "What the token is for.")
	flags.StringSliceVar(&wish.Groups, "groups", nil, "More groups for the token's user; they start with system:bootstrappers:.")
	flags.BoolVar(&printKubeconfig, "print-kubeconfig", printKubeconfig, "Print a kubeconfig with the token. If false, the token alone.")
	flags.StringVar(&server, "server", "", "URL of the server in the printed kubeconfig. The one that this command talks to if not given.")
	connection.addTo(flags)
	return cmd
}

// at returns config for another address of the same server.
func at(config *rest.Config, server string) *rest.Config {
	if server == "" {
		return config
	}
	moved := rest.CopyConfig(config)
	moved.Host, moved.ServerName = server, ""
	return moved
}

func printBootstrapKubeconfig(streams genericiooptions.IOStreams, created string, wish token.Wish, server *rest.Config, now time.Time) error {
	data, err := token.Kubeconfig(created, wish, server, now)
	if err != nil {
		return err
	}
	if isLoopback(server.Host) {
		fmt.Fprintf(streams.ErrOut, "Only this host reaches the server at %s: for nodes elsewhere, give --server.\n", server.Host)
	}
	_, err = streams.Out.Write(data)
	return err
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
		Short:             "List the bootstrap tokens, without their secret part",
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

// secrets connects to the secrets of namespace kube-system, where bootstrap
// tokens are, and returns how it reaches the server.
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
