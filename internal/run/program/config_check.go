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
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/server"
)

// checks maps kinds of configuration files to functions that validate a file like the
// programs that start with it.
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
		Short: "Check configuration files without starting a program",
		Long: `Reads configuration files of any kind like the programs that start with them, and
prints all errors in their fields. It does not open files or connect to addresses
that they name.`,
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
		return "", fmt.Errorf("reading the configuration %s: unknown kind of configuration %q: use one of %s", file, header.Kind,
			strings.Join(slices.Sorted(maps.Keys(checks)), ", "))
	}
	return header.Kind, check(file)
}
