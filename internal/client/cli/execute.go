package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/certplane/certplane/internal/client/cli/exit"
)

// Execute runs the command that root's arguments name and returns the process's exit
// code. An error is printed as one line on stderr, followed by the next steps; the usage
// text is shown only on request.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(flagError)
	refuseUnknownVerbs(root)
	addVersion(root)
	wrapHelp(root, helpWidth(os.Stdout))
	completeFromServer(root)
	cmd, err := root.ExecuteContextC(ctx)
	if isUnknownCommand(err) {
		advice := adviceInstead(err)
		if cmd == root && advice != nil {
			err = withoutSuggestions(err)
		}
		err = exit.UsageError(cmd.CommandPath(), err)
		if cmd == root {
			err = exit.WithNext(err, advice...)
		}
	}
	return exit.Report(stderr, err)
}

// withoutSuggestions returns cobra's error for an unknown command without the similar
// names: they mislead where certplane has better advice.
func withoutSuggestions(unknownCommand error) error {
	text, _, _ := strings.Cut(unknownCommand.Error(), "\n")
	return errors.New(text)
}

// flagError returns the error for wrong flags. An unknown verb is reported instead.
func flagError(cmd *cobra.Command, err error) error {
	if given := cmd.Flags().Args(); cmd.HasSubCommands() && len(given) > 0 {
		err = unknownVerb(cmd, given[0])
	}
	return exit.UsageError(cmd.CommandPath(), err)
}

// refuseUnknownVerbs makes every group of verbs handle a mistyped verb like the root
// command. Without this cobra shows the group's help and reports success.
func refuseUnknownVerbs(group *cobra.Command) {
	for _, cmd := range group.Commands() {
		if !cmd.HasSubCommands() {
			continue
		}
		if !cmd.Runnable() {
			cmd.RunE = helpOrUnknown
			cmd.SuggestionsMinimumDistance = 2 // as for the root
		}
		refuseUnknownVerbs(cmd)
	}
}

func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownVerb(cmd, args[0])
}

func unknownVerb(group *cobra.Command, verb string) error {
	text := fmt.Sprintf("unknown command %q for %q", verb, group.CommandPath())
	if kind, name, found := strings.Cut(verb, "/"); found && isVerb(group, kind) {
		return fmt.Errorf("%s: leave a space, as in '%s %s %s'", text, group.CommandPath(), kind, name)
	}
	if similar := group.SuggestionsFor(verb); len(similar) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(similar, "\n\t") + "\n"
	}
	return errors.New(text)
}

// isVerb reports whether a group has a verb with this name.
func isVerb(group *cobra.Command, name string) bool {
	return slices.ContainsFunc(group.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
}

// isUnknownCommand reports whether an error is cobra's error for an unknown
// command. It compares the text, as cobra has no error value for it.
func isUnknownCommand(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "unknown command ")
}

// namesAlone returns an error for kubectl's KIND/NAME, as a verb for one kind
// takes only names.
func namesAlone(cmd *cobra.Command, names []string) error {
	for _, name := range names {
		if kind, alone, found := strings.Cut(name, "/"); found {
			return exit.UsageError(cmd.CommandPath(), fmt.Errorf("%q is not a name: omit %q, as in '%s %s'", name, kind+"/", cmd.CommandPath(), alone))
		}
	}
	return nil
}

// noArgs returns an error for arguments of a verb that takes only flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return exit.UsageError(cmd.CommandPath(), err)
	}
	return nil
}
