package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// Widths of help, in columns.
const (
	defaultWidth = 80
	maxWidth     = 120
)

// AddGroup adds verbs to a command, under a title in its help.
func AddGroup(root *cobra.Command, title string, verbs ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, verb := range verbs {
		verb.GroupID = title
	}
	root.AddCommand(verbs...)
}

// addVersion adds --version, which prints what the version verb prints.
func addVersion(root *cobra.Command) {
	info := buildinfo.Read()
	root.Flags().Bool("version", false, "Print the version of certplane.") // cobra's own has the short form -v, which is the verbosity elsewhere
	root.Version = info.Version
	root.SetVersionTemplate(versionText(info))
}

// wrapHelp wraps the help of all verbs to the width of a terminal.
func wrapHelp(root *cobra.Command, width int) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", width)))
}

// helpWidth returns the width of help that is written to a file.
func helpWidth(out *os.File) int {
	width, _, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 {
		return defaultWidth
	}
	return min(width, maxWidth)
}
