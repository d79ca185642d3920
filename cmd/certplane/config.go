package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/server"
)

// newConfig returns the config verb and what is below it.
func newConfig(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration of the server",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "print-defaults",
		Short: "Print a commented configuration file with every default",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(streams.Out, server.DefaultsFile)
			return err
		},
	})
	return cmd
}
