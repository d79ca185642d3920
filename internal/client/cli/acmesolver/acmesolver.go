// Package acmesolver is the verb that answers one HTTP-01 challenge.
package acmesolver

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/acme/solver/acmesolver"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

// New returns the acmesolver verb. It is hidden, as the controllers and not users
// run it.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	options := acmesolver.Options{ListenPort: 8089}
	cmd := &cobra.Command{
		Use:   "acmesolver",
		Short: "Answer one HTTP-01 challenge of an ACME server",
		Long: `Serves the answer to one HTTP-01 challenge until it is stopped. The controllers
run it in the pods that they make for challenges in a cluster.`,
		Hidden:            true,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := check(options); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			options.Listening = func(address net.Addr) {
				fmt.Fprintf(streams.ErrOut, "Answering for %s on %s.\n", options.Domain, address)
			}
			return acmesolver.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&options.ListenPort, "listen-port", options.ListenPort, "Port to listen on, on all addresses.")
	flags.StringVar(&options.Domain, "domain", "", "Name or IP address that is validated.")
	flags.StringVar(&options.Token, "token", "", "Token of the challenge.")
	flags.StringVar(&options.Key, "key", "", "Answer to the challenge.")
	return cmd
}

// check returns an error for options with which no CA would find the answer.
func check(options acmesolver.Options) error {
	if options.ListenPort < 0 || options.ListenPort > 65535 {
		return fmt.Errorf("--listen-port: %d is not a port", options.ListenPort)
	}
	for _, flag := range []struct{ name, value string }{{"--domain", options.Domain}, {"--token", options.Token}, {"--key", options.Key}} {
		if flag.value == "" {
			return errors.New(flag.name + " is missing")
		}
	}
	return nil
}
