package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/process/buildinfo"
)

// NewVersion returns the version verb.
func NewVersion(streams genericiooptions.IOStreams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of certplane",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(format); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			info := buildinfo.Read()
			return print.Found(streams.Out, format, info, func() string { return versionText(info) })
		},
	}
	addOutput(cmd, &format)
	return cmd
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
