package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/certplane/certplane/internal/client/cli/print"
)

// againCommand returns the command line that resumes a request: the given flags, with the
// request's name and key in place of the flags that created them. It omits --approve: the
// request is approved already, or another user approves it.
func againCommand(cmd *cobra.Command, name, keyFile string) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"name", "key", "key-type", "approve"}, f.Name) {
			return
		}
		if f.Name == "wait" && f.Value.String() == "0" {
			return // this time the command waits for the certificate
		}
		for _, value := range flagValues(f) {
			words = append(words, "--"+f.Name, print.Quote(value))
		}
	})
	return strings.Join(append(words, "--name", print.Quote(name), "--key", print.Quote(keyFile)), " ")
}

func flagValues(f *pflag.Flag) []string {
	if many, ok := f.Value.(pflag.SliceValue); ok {
		return many.GetSlice()
	}
	return []string{f.Value.String()}
}
