package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/certplane/certplane/internal/cli/exit"
)

// Execute runs the command that root's arguments ask for and returns the
// process' exit code. An error is one line on stderr and what to do next;
// the usage text is shown only to those who ask for it.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.UsageError(cmd.CommandPath(), err)
	})
	cmd, err := root.ExecuteContextC(ctx)
	if isUnknownCommand(err) {
		err = exit.UsageError(cmd.CommandPath(), err)
	}
	return exit.Report(stderr, err)
}

// isUnknownCommand goes by the text: cobra has no error value for it.
func isUnknownCommand(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "unknown command ")
}

// noArgs refuses arguments to a verb that takes flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return exit.UsageError(cmd.CommandPath(), err)
	}
	return nil
}
