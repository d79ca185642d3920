package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/renew"
)

const renewLong = `Issues new certificates for Certificates of cert-manager.io, whether or not they
are due for renewal, and even if the last attempt failed a moment ago. The Secrets
keep their content until the new certificates are issued.

It works with any Kubernetes API server that has Certificates, and does not wait.
It requires get on certificates and update on certificates/status; with --all or
--selector, list on certificates. With that permission, it refuses a Certificate whose
Secret belongs to another one: no certificate would be issued for it.

Exit codes: 0 all are being renewed, 1 error, 2 wrong usage.`

const renewExample = `  certplane renew web
  certplane renew -n shop --selector app=web
  certplane renew --all --all-namespaces`

// renewFlags are the flags of the renew verb.
type renewFlags struct {
	namespace, selector string
	all, allNamespaces  bool
}

// NewRenew returns the renew verb.
func NewRenew(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var given renewFlags
	cmd := &cobra.Command{
		Use:               "renew (NAME... | --all | --selector LABELS)",
		Short:             "Renew Certificates before they are due",
		Long:              renewLong,
		Example:           renewExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := given.check(args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if err := namesAlone(cmd, args); err != nil {
				return err
			}
			return renew.Run(cmd.Context(), renew.Config{
				Namespace: given.where(&connection), Names: args, Selector: given.selector,
				Connect: func() (dynamic.Interface, error) { return connection.dynamic(streams.ErrOut) },
				Kubectl: strings.Join(append([]string{"certplane", "kubectl"}, connection.given()...), " "),
				Now:     time.Now, Stdout: streams.Out,
			})
		},
	}
	given.addTo(cmd.Flags())
	connection.addTo(cmd.Flags())
	return cmd
}

func (f *renewFlags) addTo(flags *pflag.FlagSet) {
	flags.SortFlags = false
	addNamespace(flags, &f.namespace, "the Certificates")
	flags.BoolVar(&f.all, "all", false, "Renew all Certificates in the namespace.")
	flags.StringVarP(&f.selector, "selector", "l", "", "Renew the Certificates with these labels, such as app=web.")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Renew Certificates in all namespaces, with --all or --selector.")
}

// where returns the namespace; empty means all namespaces.
func (f *renewFlags) where(c *connection) string {
	if f.allNamespaces {
		return ""
	}
	return c.in(f.namespace)
}

func (f *renewFlags) check(names []string) error {
	ways := 0
	for _, given := range []bool{len(names) > 0, f.all, f.selector != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("name the Certificates: give names, --all, or --selector")
	case f.allNamespaces && len(names) > 0:
		return errors.New("--all-namespaces cannot go with names: use --namespace")
	}
	if _, err := labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}

// dynamic connects to the server for kinds that it might not serve.
func (c *connection) dynamic(warnings io.Writer) (dynamic.Interface, error) {
	config, err := c.clientConfig(warnings)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // one command sends few requests
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return client, nil
}
