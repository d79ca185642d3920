package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/promote"
)

const policyPromoteLong = `Enforces a policy that was tried in the mode Shadow or Warn. Its specification replaces
that of the policy in spec.replaces, which keeps its name; the tried policy is deleted. A
policy without spec.replaces is enforced under its own name.

It first shows the counts of the trial (status.shadow). If decisions will change, or no
decision was counted, it asks for confirmation, or needs --yes.

Exit codes: 0 promoted, 1 not promoted because it was not confirmed, 2 another error.`

func newPolicyPromote(streams genericiooptions.IOStreams) *cobra.Command {
	var c connection
	cfg := promote.Config{Stdout: streams.Out, Terminal: terminalOf(streams.In)}
	cmd := &cobra.Command{
		Use:     "promote NAME",
		Short:   "Enforce a tried policy in place of the policy that it replaces",
		Long:    policyPromoteLong,
		Example: "  certplane policy promote web-next\n  certplane policy promote web-next --yes",
		RunE: policyRun(func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.UsageError(cmd.CommandPath(), errors.New("name one policy that is in the mode Shadow or Warn"))
			}
			api, err := c.policyAPI()
			if err != nil {
				return err
			}
			cfg.API, cfg.Name = api, args[0]
			return promote.Run(cmd.Context(), cfg)
		}),
	}
	cmd.Flags().BoolVarP(&cfg.Yes, "yes", "y", false, "Do not ask for confirmation, even if decisions will change.")
	c.addTo(cmd.Flags())
	return cmd
}

// terminalOf returns in if it is a terminal.
func terminalOf(in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return in
	}
	return nil
}
