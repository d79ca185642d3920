package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/hostadd"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/cli/token"
	"github.com/certplane/certplane/internal/process/duration"
)

const hostAddLong = `Lets a host of "certplane agent" obtain a certificate for some names, and prints the
configuration of its agent. It creates these objects if they are missing:

- the Signer agent-hosts, which signs for hosts, and the namespace hosts;
- a service account with the host's name, whose annotations list the names;
- a role with the verb "host" on this service account, bound to the user
  system:node:NAME, so that only this host gets the certificate;
- a bootstrap token with which only this host can join, in NAME.kubeconfig.

Running it again changes nothing; with other names, these replace the host's names.
A host that has joined gets no new token. With -o, it prints the objects without the
token for "kubectl apply" and writes nothing; that needs no server.

Exit codes: 0 added, 1 error, 2 wrong usage.`

const hostRemoveLong = `Removes a host that "certplane host add" has added: its right and its service account,
its bootstrap tokens, and its Node with the Pods. The Signer stays. Stop the agent
first: it would register the host again, but get no certificates. Existing certificates
of the host are valid until they expire.

Exit codes: 0 removed, 1 error, 2 wrong usage.`

// NewHost returns the host verb with its subcommands.
func NewHost(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Add and remove hosts of agents",
	}
	cmd.AddCommand(newHostAdd(streams), newHostRemove(streams))
	return cmd
}

// hostVerb holds the options of both subcommands.
type hostVerb struct {
	hostadd.Config
	connection connection
	server     string
}

func newHostAdd(streams genericiooptions.IOStreams) *cobra.Command {
	h := hostVerb{Config: hostadd.Config{TTL: 24 * time.Hour, Stdout: streams.Out, Stderr: streams.ErrOut}}
	cmd := &cobra.Command{
		Use:   "add NAME (--dns NAME | --ip ADDRESS)...",
		Short: "Let a host obtain a certificate, and print the configuration of its agent",
		Long:  hostAddLong,
		Example: `  certplane host add edge-1 --dns www.example.com --server https://certplane.example.com:6443 > agent.yaml
  certplane host add edge-1 --dns www.example.com --dns example.com --ip 192.0.2.7 -o yaml`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := h.complete(cmd, args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return hostadd.Add(cmd.Context(), h.Config, time.Now())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&h.DNSNames, "dns", nil, "DNS name of the certificate. Repeatable.")
	flags.StringSliceVar(&h.IPAddresses, "ip", nil, "IP address of the certificate. Repeatable.")
	flags.StringVar(&h.server, "server", "", "URL of the server in the host's kubeconfig. Default: the URL that this command uses.")
	flags.StringVar(&h.Place.Path, "out", "", "File for the kubeconfig with the bootstrap token, created with mode 0600. Default: NAME.kubeconfig.")
	flags.BoolVar(&h.Place.Overwrite, "overwrite", false, "Replace the file of --out if it exists.")
	duration.Var(flags, &h.TTL, "ttl", h.TTL, "Lifetime of the bootstrap token, like 1h or 7d. 0 means no limit.")
	h.addTo(cmd)
	addOutputOf(cmd, &h.Output, print.Formats, "One of "+strings.Join(print.Formats, ", ")+": print the objects and write nothing.")
	h.connection.addTo(flags)
	return cmd
}

func newHostRemove(streams genericiooptions.IOStreams) *cobra.Command {
	h := hostVerb{Config: hostadd.Config{Stdout: streams.Out, Stderr: streams.Out}}
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Short:             "Remove a host and its rights",
		Long:              hostRemoveLong,
		Example:           "  certplane host remove edge-1",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := h.take(cmd, args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return hostadd.Remove(cmd.Context(), h.Config)
		},
	}
	h.addTo(cmd)
	h.connection.addTo(cmd.Flags())
	return cmd
}

func (h *hostVerb) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&h.Namespace, "namespace", "n", "hosts", "Namespace of the host's service account.")
}

// take sets the options shared by both verbs.
func (h *hostVerb) take(cmd *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("name one host, as in '%s edge-1'", cmd.CommandPath())
	}
	h.Name = args[0]
	h.Connect, h.Secrets = h.connection.hosting, func() (token.Secrets, *rest.Config, error) { return h.connection.secrets(io.Discard) }
	h.Command, h.Again = h.connection.line, print.CommandLine(append(strings.Fields(cmd.CommandPath()), args...)...)
	return nil
}

func (h *hostVerb) complete(cmd *cobra.Command, args []string) error {
	if err := h.take(cmd, args); err != nil {
		return err
	}
	if err := errors.Join(h.Validate(), token.Options{TTL: h.TTL}.Validate(), print.CheckFormat(h.Output)); err != nil {
		return err
	}
	words := append(strings.Fields(cmd.CommandPath()), h.Name)
	for _, flag := range []string{"dns", "ip", "server", "namespace"} {
		if given := cmd.Flags().Lookup(flag); given.Changed {
			for _, value := range flagValues(given) {
				words = append(words, "--"+flag, value)
			}
		}
	}
	h.Again = print.CommandLine(words...)
	if h.Place.Path == "" {
		h.Place.Path = h.Name + ".kubeconfig"
	}
	if h.server != "" {
		url, err := token.ServerURL(h.server)
		if err != nil {
			return err
		}
		h.server = url
	}
	h.Secrets = func() (token.Secrets, *rest.Config, error) {
		secrets, config, err := h.connection.secrets(io.Discard)
		if err != nil {
			return nil, nil, err
		}
		config = at(config, h.server)
		if isLoopback(config.Host) {
			fmt.Fprintf(h.Stderr, "Only this machine reaches the server at %s: for other hosts, give --server.\n", config.Host)
		}
		return secrets, config, nil
	}
	return nil
}

// hosting returns a client for the objects of hosts. It does not call the server yet.
func (c *connection) hosting() (client.Client, error) {
	config, err := c.clientConfig(io.Discard)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // one command sends few requests
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Role", "RoleBinding"} {
		mapper.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	for _, kind := range []string{"Namespace", "Node"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(v1alpha1.GroupVersion.WithKind("Signer"), meta.RESTScopeRoot)
	connected, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return connected, nil
}
