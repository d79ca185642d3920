package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/lint"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const policyLintLong = `Reports mistakes in files of CertificatePolicies and CertificatePolicyExceptions with
file and line: the errors and warnings of the server when it applies them. Files with
tests of policies (PolicyTest) are checked for unknown fields. PATH is a file, or a
folder with files *.yaml, *.yml and *.json. It needs no server.

Exit codes: 0 no errors, 1 errors found, 2 the files could not be read.`

func newPolicyLint(streams genericiooptions.IOStreams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "lint PATH...",
		Short:   "Report mistakes in files of policies",
		Long:    policyLintLong,
		Example: "  certplane policy lint policies/\n  certplane policy lint policies/web.yaml -o json",
		RunE: policyRun(func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return exit.UsageError(cmd.CommandPath(), errors.New("name a file or a folder, or - for the standard input"))
			}
			if err := print.CheckFormat(format); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return lint.Run(lint.Config{Paths: paths, Now: time.Now(), Output: format, Stdout: streams.Out})
		}),
	}
	addOutput(cmd, &format)
	return cmd
}
