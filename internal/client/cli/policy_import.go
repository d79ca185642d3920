package cli

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/policy/convert"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/policies"
)

const policyImportLong = `Converts CertificateRequestPolicies of approver-policy to CertificatePolicies, and prints
them. PATH is a file or a folder; without PATH, the policies of the server are read.
Roles that let requesters use the policies keep working.

Fields without an equivalent become comments. If omitting a field would permit more, the
new policy permits nothing. --verify decides the server's CertificateRequests, or those in
--requests, by both policies, and lists the differences on the standard error.

Exit codes: 0 all policies were converted, and no decision differs; 1 a field has no
equivalent, or a decision differs; 2 another error.`

func newPolicyImport(streams genericiooptions.IOStreams) *cobra.Command {
	var source policySource
	cfg := convert.Config{Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "import [PATH...]",
		Short: "Convert policies of approver-policy to CertificatePolicies",
		Long:  policyImportLong,
		Example: `  certplane policy import --verify > policies.yaml
  certplane policy import crps/ --verify --requests requests.yaml --facts facts.yaml`,
		RunE: policyRun(func(cmd *cobra.Command, args []string) error {
			cfg.Files, cfg.Now = args, time.Now()
			store, err := readFacts(source.facts)
			if err != nil {
				return err
			}
			cfg.Facts = &facts.Finder{Objects: &replay.Remembered{Reader: store}, Access: store.Access, Controllers: source.controllers}
			if len(args) == 0 || cfg.Verify && len(cfg.Requests) == 0 {
				api, err := source.connection.policyAPI()
				if err != nil {
					return err
				}
				both := facts.Over{First: store, Then: api}
				cfg.API = api
				cfg.Facts.Objects, cfg.Facts.Access = &replay.Remembered{Reader: both}, replay.RememberAccess(both.Access(policies.Reviews(api)))
			}
			return convert.Run(cmd.Context(), cfg)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&cfg.Verify, "verify", false, "Decide requests by both policies, and list the differences.")
	flags.StringArrayVar(&cfg.Requests, "requests", nil, "File or folder with CertificateRequests, for --verify. Repeatable.")
	source.addFactsTo(flags)
	source.connection.addTo(flags)
	return cmd
}
