package program

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// newConfig returns the config verb with its subcommands.
func newConfig(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration of servers, controllers and agents",
	}
	cmd.AddCommand(newPrintDefaults(streams), newConfigCheck(streams))
	return cmd
}

// defaultsFiles are the configuration files with the defaults, by kind.
var defaultsFiles = map[string]string{
	"ServerConfiguration":      server.DefaultsFile,
	"ControllersConfiguration": cluster.DefaultsFile,
	"AgentConfiguration":       agent.DefaultsFile,
}

func newPrintDefaults(streams genericiooptions.IOStreams) *cobra.Command {
	kind := "ServerConfiguration"
	kinds := strings.Join(slices.Sorted(maps.Keys(defaultsFiles)), ", ")
	cmd := &cobra.Command{
		Use:   "print-defaults",
		Short: "Print a commented configuration file with every default",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, ok := defaultsFiles[kind]
			if !ok {
				return fmt.Errorf("--kind: unknown kind of configuration %q: use one of %s", kind, kinds)
			}
			_, err := fmt.Fprint(streams.Out, file)
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "kind", kind, "Kind of the file, one of "+kinds+".")
	return cmd
}
