package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/decisions"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

const decisionsLong = `Shows approvals and denials of requests for certificates, latest first, each with its
time, reason, and the user or policy that decided: for requests of all kinds, as far as
the server keeps their records (inventory.keep).

It requires list on certificatedecisions.inventory.certplane.dev, as in the ClusterRole
certplane-inventory-view.

Exit codes: 0 shown, even if none matches, 1 error, 2 wrong usage.`

// NewDecisions returns the decisions verb.
func NewDecisions(streams genericiooptions.IOStreams) *cobra.Command {
	var connection connection
	var since, until string
	var denied, approved bool
	cfg := decisions.Config{Limit: defaultLimit, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "decisions",
		Short: "List approvals and denials, with user, time and reason",
		Long:  decisionsLong,
		Example: "  certplane decisions --by bob --since 30d\n  certplane decisions --denied --signer example.com/hosts -o wide\n" +
			"  certplane decisions --since 2026-11-01 --until 2026-12-01 -o csv > decisions.csv",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var errs [2]error
			cfg.Since, cfg.Until, errs[0] = parseSpan(since, until, time.Now())
			cfg.Limit, errs[1] = recordLimit(cfg.Limit, cmd.Flags().Changed("limit"), cfg.Output)
			if err := errors.Join(errs[:]...); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			switch {
			case denied:
				cfg.Decision = inventoryv1alpha1.Denied
			case approved:
				cfg.Decision = inventoryv1alpha1.Approved
			}
			cfg.Connect = connection.inventory(streams.ErrOut)
			return decisions.Run(cmd.Context(), cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&cfg.By, "by", "", "Show only decisions of this user.")
	flags.StringVar(&since, "since", "", "Show only decisions since then: an age such as 30d, or a time such as 2026-11-01.")
	flags.StringVar(&until, "until", "", "Show only decisions before then: an age such as 30d, or a time such as 2026-12-01.")
	flags.BoolVar(&denied, "denied", false, "Show only denials.")
	flags.BoolVar(&approved, "approved", false, "Show only approvals.")
	flags.StringVar(&cfg.Signer, "signer", "", "Show only requests to this signer, such as example.com/hosts or issuers.cert-manager.io/shop.ca.")
	flags.StringVar(&cfg.Name, "name", "", "Show only requests with this DNS name, IP address, URI, e-mail address or common name.")
	flags.StringVar(&cfg.Under, "under", "", "Show only requests with this DNS name or one below it, such as corp.example.")
	flags.StringVar(&cfg.Requester, "requester", "", "Show only requests of this user.")
	flags.StringVarP(&cfg.Namespace, "namespace", "n", "", "Show only requests in this namespace.")
	flags.IntVar(&cfg.Limit, "limit", cfg.Limit, "Maximum number of decisions; with -o csv, the default is all.")
	addOutputOf(cmd, &cfg.Output, recordFormats, "One of "+strings.Join(recordFormats, ", ")+". Default: a table.")
	cmd.MarkFlagsMutuallyExclusive("denied", "approved")
	connection.addControllersTo(flags)
	connection.addTo(flags)
	return cmd
}
