package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/inbox"
	"github.com/certplane/certplane/internal/cli/print"
)

const requestsLong = `Lists the requests for certificates that wait for a decision:
CertificateSigningRequests, CertificateRequests of cert-manager.io, and
PodCertificateRequests, which wait for their signer alone. It shows what they ask
for, and whether you may decide about them. "certplane explain csr NAME" shows more
about one of them, "certplane approve" and "certplane deny" decide.

It works with any Kubernetes API server. It requires list on the requests; kinds that
you may not list are named on standard error.

Exit codes: 0 listed, 1 error, 2 wrong usage.`

const requestsExample = `  certplane requests
  certplane requests --signer server -o wide
  certplane requests -n shop --all`

// requestsFormats are the values of --output.
var requestsFormats = []string{"json", "wide", "yaml"}

// NewRequests returns the verb that lists requests of all kinds.
func NewRequests(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var query inbox.Query
	var format string
	cmd := &cobra.Command{
		Use:               "requests",
		Short:             "List the requests that wait for a decision, of all kinds",
		Long:              requestsLong,
		Example:           requestsExample,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(format, requestsFormats); format != "" && err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			api, err := connection.api()
			if err != nil {
				return err
			}
			if query.Signer, err = connection.signerName(cmd.Context(), query.Signer); err != nil {
				return err
			}
			found, err := inbox.List(cmd.Context(), api, query)
			if err != nil {
				return err
			}
			for _, missing := range found.Missing {
				fmt.Fprintln(streams.ErrOut, "Note: "+missing)
			}
			if len(found.Requests) == 0 && (format == "" || format == print.Wide) {
				fmt.Fprintln(streams.ErrOut, nothingFound(query))
				return nil
			}
			return print.Found(streams.Out, format, found, func() string { return found.Text(time.Now(), format == print.Wide) })
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&query.Namespace, "namespace", "n", "", "Only this namespace, of kinds that have one. All namespaces if not given.")
	flags.StringVar(&query.Signer, "signer", "", "Only requests to this signer.")
	flags.BoolVar(&query.All, "all", false, "Also requests that are decided, and those that are signed.")
	addOutputOf(cmd, &format, requestsFormats, "One of "+strings.Join(requestsFormats, ", ")+". A table if not given.")
	connection.addTo(flags)
	return cmd
}

// nothingFound says that there is no request.
func nothingFound(q inbox.Query) string {
	if q.All {
		return "There are no requests."
	}
	return "No request waits for a decision. With --all, decided ones are listed too."
}
