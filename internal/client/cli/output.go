package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// listFormats are the output formats of verbs that print a table of objects.
var listFormats = append([]string{print.Wide}, print.Formats...)

// addOutput adds the flag whose value print.CheckFormat checks.
func addOutput(cmd *cobra.Command, format *string) {
	addOutputOf(cmd, format, print.Formats, "One of "+strings.Join(print.Formats, ", ")+". Default: text.")
}

// addOutputOf adds the flag for one of formats. The current value of format is its
// default.
func addOutputOf(cmd *cobra.Command, format *string, formats []string, usage string) {
	cmd.Flags().StringVarP(format, "output", "o", *format, usage)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
}

// checkOutput returns an error if a value of the flag is not one of formats.
func checkOutput(given string, formats []string) error {
	if !slices.Contains(formats, given) {
		return fmt.Errorf("--output is %q, want one of %s", given, strings.Join(formats, ", "))
	}
	return nil
}
