package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/cases"
)

const policyTestLong = `Runs tests of certificate policies: files of the kind PolicyTest with requests
and the expected decisions. PATH is a file, or a folder whose files *.yaml, *.yml and
*.json with tests are run. Default: the current folder. It needs no server.

  apiVersion: certplane.dev/v1alpha1
  kind: PolicyTest
  policies: [policies/*.yaml]      # relative to this file
  facts: [facts.yaml]              # Namespaces, Nodes, Pods, Services, Certificates
  cases:
  - name: a name of another team
    ask:
      kind: CertificateRequest
      namespace: shop
      signer: clusterissuers.cert-manager.io/internal
      as: {username: alice, groups: [team-shop]}
      dnsNames: [www.example.org]
      usages: [server auth]
    expect:
      outcome: Deny
      violations: [{policy: web-shop, at: certificate.names.dns}]

A case runs with the server's defaults. "matrix: {key: [RSA2048, ED25519]}" creates a
case for each value, "request: FILE" reads a request from a file, "votes" lists approvals
by people, and "access" before the cases lists the rights of users.

Exit codes: 0 all cases pass, 1 a case fails, 2 a test could not be run.`

const policyTestExample = `  certplane policy test
  certplane policy test web_test.yaml --run 'own zone'
  # Write the present decisions to the files, to review them with git diff
  certplane policy test --update
  certplane policy test -o junit > report.xml`

func newPolicyTest(streams genericiooptions.IOStreams) *cobra.Command {
	cfg := cases.Config{Path: ".", Now: time.Now, Stdout: streams.Out}
	var run string
	cmd := &cobra.Command{
		Use:     "test [PATH]",
		Short:   "Run tests of policies",
		Long:    policyTestLong,
		Example: policyTestExample,
		RunE: policyRun(func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.Run, err = regexp.Compile(run); err != nil {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("--run: %w", err))
			}
			switch {
			case len(args) > 1:
				return exit.UsageError(cmd.CommandPath(), errors.New("name one file or folder"))
			case cfg.Output != "" && !slices.Contains(cases.Formats, cfg.Output):
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("--output is %q, want %s", cfg.Output, strings.Join(cases.Formats, " or ")))
			case len(args) == 1:
				cfg.Path = args[0]
			}
			return cases.Run(cmd.Context(), cfg)
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&run, "run", "", "Run only the cases whose names match this regular expression.")
	flags.BoolVar(&cfg.Update, "update", false, "Write the actual decisions of failing cases to their files.")
	addOutputOf(cmd, &cfg.Output, cases.Formats, "One of "+strings.Join(cases.Formats, ", ")+". Default: text.")
	return cmd
}
