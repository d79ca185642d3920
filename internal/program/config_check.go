package program

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/cluster"
	"github.com/certplane/certplane/internal/server"
)

// checks read a configuration file as the programs do that start with it, by
// kind.
var checks = map[string]func(file string) error{
	"ServerConfiguration":      check(server.LoadConfig),
	"ControllersConfiguration": check(cluster.LoadConfig),
	"AgentConfiguration":       check(agent.LoadConfig),
}

func check[C any](load func(string) (C, error)) func(string) error {
	return func(file string) error {
		_, err := load(file)
		return err
	}
}

func newConfigCheck(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Check configuration files without a start",
		Long: `Reads configuration files of any kind as the programs do that start with them, and
prints everything that is wrong with their fields. It opens no file that they name,
and no address.`,
		Example: `  certplane config check /etc/certplane/server.yaml`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			var problems []error
			for _, file := range files {
				kind, err := checkConfig(file)
				if err != nil {
					problems = append(problems, err)
					continue
				}
				fmt.Fprintf(streams.Out, "%s: %s, no problems found\n", file, kind)
			}
			return errors.Join(problems...)
		},
	}
}

// checkConfig returns the kind of a valid configuration file.
func checkConfig(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the configuration: %w", err)
	}
	var header struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &header); err != nil {
		return "", fmt.Errorf("reading the configuration %s: %w", file, err)
	}
	check, ok := checks[header.Kind]
	if !ok {
		return "", fmt.Errorf("reading the configuration %s: there is no configuration of kind %q: use one of %s", file, header.Kind,
			strings.Join(slices.Sorted(maps.Keys(checks)), ", "))
	}
	return header.Kind, check(file)
}
