package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/inbox"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const requestsLong = `Lists the requests for certificates that wait for a decision:
CertificateSigningRequests, CertificateRequests of cert-manager.io, and
PodCertificateRequests, which wait only for their signer. It shows the requested names,
and whether you may decide. "certplane explain csr NAME" shows more about a request;
"certplane approve" and "certplane deny" decide.

It works with any Kubernetes API server. It requires list on the requests; kinds that
you may not list are reported on standard error.

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
	flags.StringVarP(&query.Namespace, "namespace", "n", "", "Show only requests in this namespace, for kinds with namespaces. Default: all namespaces.")
	flags.StringVar(&query.Signer, "signer", "", "Show only requests to this signer.")
	flags.BoolVar(&query.All, "all", false, "Also show requests that are decided or signed.")
	addOutputOf(cmd, &format, requestsFormats, "One of "+strings.Join(requestsFormats, ", ")+". Default: a table.")
	connection.addTo(flags)
	return cmd
}

// nothingFound returns the message for an empty list.
func nothingFound(q inbox.Query) string {
	if q.All {
		return "No requests found."
	}
	return "No request waits for a decision. --all also lists decided ones."
}
