package cli

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/policy/convert"
	"github.com/certplane/certplane/internal/cli/policy/facts"
	"github.com/certplane/certplane/internal/cli/policy/replay"
	"github.com/certplane/certplane/internal/policies"
)

const policyImportLong = `Prints CertificatePolicies that say what CertificateRequestPolicies of approver-policy
say: those in files and folders, or without any, those of the server. Roles by which
requesters may use them go on working.

What has no equal is a comment, and where leaving it out would permit more, the new policy
permits nothing. --verify decides by both about the CertificateRequests that the server
has, or those in --requests, and lists on the standard error what is decided differently.

Exit codes: 0 all of it was converted, and no decision differs; 1 something has no equal,
or a decision differs; 2 another error.`

func newPolicyImport(streams genericiooptions.IOStreams) *cobra.Command {
	var source policySource
	cfg := convert.Config{Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:   "import [PATH...]",
		Short: "Make CertificatePolicies of the policies of approver-policy",
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
	flags.BoolVar(&cfg.Verify, "verify", false, "Decide about requests by both, and list the differences.")
	flags.StringArrayVar(&cfg.Requests, "requests", nil, "File or folder with CertificateRequests, for --verify. May be repeated.")
	source.addFactsTo(flags)
	source.connection.addTo(flags)
	return cmd
}
