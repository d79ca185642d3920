package cli

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// completeKubectl completes "certplane kubectl ..." by calling the built-in
// kubectl as a shell would.
func completeKubectl(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	dataDir, args, err := takeDataDir(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	if err := useServerOf(dataDir); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	words := append([]string{cobra.ShellCompRequestCmd}, args...)
	words = append(words, toComplete)

	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard}
	root := newKubectlTree(streams, "kubectl", append([]string{"kubectl"}, words...))
	root.SetArgs(words)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if err := root.Execute(); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return parseCompletions(out.String())
}

// parseCompletions reads what cobra's completion command prints: a line for
// each completion and then the directive as ":NUMBER".
func parseCompletions(out string) ([]cobra.Completion, cobra.ShellCompDirective) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
