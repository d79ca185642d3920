package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/policy/promote"
)

const policyPromoteLong = `Enforces a policy that was tried in the mode Shadow or Warn: its specification takes the
place of that of the policy it replaces, which keeps its name, and the one that was tried
is deleted. A policy that replaces none is enforced under its own name.

It shows first what was counted while the policy was tried (status.shadow). If decisions
will change, or nothing was counted, it asks, or needs --yes.

Exit codes: 0 promoted, 1 not promoted as nobody agreed, 2 another error.`

func newPolicyPromote(streams genericiooptions.IOStreams) *cobra.Command {
	var c connection
	cfg := promote.Config{Stdout: streams.Out, Terminal: terminalOf(streams.In)}
	cmd := &cobra.Command{
		Use:     "promote NAME",
		Short:   "Enforce a policy that was tried, in the place of the one it replaces",
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
	cmd.Flags().BoolVarP(&cfg.Yes, "yes", "y", false, "Do not ask, also if decisions will change.")
	c.addTo(cmd.Flags())
	return cmd
}

// terminalOf returns in if a person types there.
func terminalOf(in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return in
	}
	return nil
}
