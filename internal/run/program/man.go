package program

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// newMan returns the man verb, with which releases are made.
func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:    "man",
		Short:  "Write the manual pages",
		Long:   `Writes a manual page for each verb. Their date is SOURCE_DATE_EPOCH, if it is set.`,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("--dir: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // a line with today's date
			if err := doc.GenManTree(root, &doc.GenManHeader{
				Section: "1", Source: "certplane " + buildinfo.Read().Version, Manual: "certplane",
			}, dir); err != nil {
				return fmt.Errorf("writing manual pages: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "Folder to write to.")
	return cmd
}
