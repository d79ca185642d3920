package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/explain"
)

const explainCSRLong = `Tells what becomes of a certificate signing request and why: what it asks for,
whether it needs a person to approve it, what permission is missing, whether its
signer would accept it, what controllers said of it, and what to do next.

It works with any Kubernetes API server and changes nothing. Whoever may read
the request gets an answer; what you may not ask is shown as unknown. To ask
what others may do takes create on subjectaccessreviews.authorization.k8s.io.

Exit codes: 0 explained, whatever became of the request, 1 error, 2 wrong usage.`

const explainCSRExample = `  certplane explain csr node-csr-x7Lw
  certplane explain csr alice -o json`

// NewExplain returns the explain verb and what is below it.
func NewExplain(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Tell what becomes of a request, and why",
	}
	cmd.AddCommand(newExplainCSR(streams))
	return cmd
}

func newExplainCSR(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var output string
	cmd := &cobra.Command{
		Use:               "csr NAME",
		Short:             "Tell what becomes of a certificate signing request, and why",
		Long:              explainCSRLong,
		Example:           explainCSRExample,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkExplainCSR(args, output); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			return explain.Run(cmd.Context(), explain.Config{
				Name: args[0], Output: output,
				Connect: func() (kubernetes.Interface, error) { return connection.client(streams.ErrOut) },
				Kubectl: append([]string{"certplane", "kubectl"}, connection.given()...),
				Now:     time.Now, Stdout: streams.Out,
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&output, "output", "o", "", "One of json, yaml. Text for people if not given.")
	connection.addTo(cmd.Flags())
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func checkExplainCSR(args []string, output string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("name one certificate signing request")
	}
	if !slices.Contains([]string{"", "json", "yaml"}, output) {
		return fmt.Errorf("--output is %q, want json or yaml", output)
	}
	return nil
}
