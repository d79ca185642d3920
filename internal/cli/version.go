package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/buildinfo"
	"github.com/certplane/certplane/internal/cli/exit"
)

// NewVersion returns the version verb.
func NewVersion(streams genericiooptions.IOStreams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print which certplane this is",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "", "json", "yaml":
				return writeVersion(streams.Out, output, buildinfo.Read())
			default:
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("--output is %q, want json or yaml", output))
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "One of json, yaml. Plain text if not given.")
	return cmd
}

func writeVersion(out io.Writer, output string, info buildinfo.Info) error {
	var data []byte
	var err error
	switch output {
	case "json":
		data, err = json.MarshalIndent(info, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(info)
	default:
		data = []byte(versionText(info))
	}
	if err != nil {
		return fmt.Errorf("encoding version: %w", err)
	}
	_, err = out.Write(data)
	return err
}

func versionText(info buildinfo.Info) string {
	text := "certplane " + info.Version
	if info.Revision != "" {
		text += " (" + info.Revision
		if info.Time != "" {
			text += ", " + info.Time
		}
		if info.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return fmt.Sprintf("%s\nKubernetes libraries %s\n%s %s\n", text, info.Kubernetes, info.Go, info.Platform)
}
