package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/client/cli/adopt"
	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const adoptLong = `Replaces a program by the controllers of certplane, without a new certificate.

Without --write, --run, --back or --verify it reads the cluster, and prints what the
program does in it, what certplane covers, and what it would issue or write at once. It
changes nothing.

--run takes the steps of the move, asks before each one, and stops at the first surprise.
Its state is in the cluster: it can be interrupted and started again.

You need the rights of an administrator. Keys are compared, never printed or stored.

Exit codes: 0 everything is covered, 1 something is not, 2 it could not be found out.`

const adoptExample = `  certplane adopt cert-manager
  certplane adopt cert-manager --write move --image registry.example.com/certplane:v1
  certplane adopt cert-manager --run --image registry.example.com/certplane:v1
  certplane adopt cert-manager --verify move/before.json
  certplane adopt cert-manager --back`

// NewAdopt returns the adopt verb. manifests returns the objects that install the controllers
// from an image, with a configuration file in YAML; an empty image stands for that of this build.
func NewAdopt(streams genericiooptions.IOStreams, manifests func(config []byte, image string) ([]runtime.Object, error)) *cobra.Command {
	var connection connection
	var format, write, verify, image string
	var run, back, yes bool
	var step int
	var watch time.Duration
	programs := []string{"cert-manager", "trust-manager"}
	cmd := &cobra.Command{
		Use:               "adopt " + strings.Join(programs, "|"),
		Short:             "Replace cert-manager or trust-manager in a cluster",
		Long:              adoptLong,
		Example:           adoptExample,
		ValidArgsFunction: cobra.FixedCompletions(programs, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := print.CheckFormat(format)
			switch {
			case len(args) != 1:
				err = fmt.Errorf("name the program to replace: %s", strings.Join(programs, " or "))
			case (step != 0 || cmd.Flags().Changed("watch")) && !run || yes && !run && !back:
				err = errors.New("--step and --watch need --run, and --yes needs --run or --back")
			case watch < 0:
				err = fmt.Errorf("--watch is %s: it must not be negative", watch)
			}
			if err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			log.SetLogger(klog.Background()) // without one, clients print a stack after half a minute
			cfg := adopt.Config{
				Program: args[0], Line: connection.line, Out: streams.Out, Careless: yes, Watch: watch, Now: time.Now, Sleep: adopt.Sleep,
				Manifests: func(config []byte) ([]runtime.Object, error) { return manifests(config, image) },
				Ask:       func(question string) (bool, error) { return confirm(streams, question, yes) },
			}
			if cfg.Client, err = connection.clientConfig(io.Discard); err != nil {
				return err
			}
			cfg.Client.QPS = -1 // the API server limits this client
			switch ctx := cmd.Context(); {
			case run:
				return adopt.Run(ctx, cfg, step)
			case back:
				return adopt.Back(ctx, cfg)
			case verify != "":
				report, err := adopt.Verify(ctx, cfg, verify)
				return shown(streams, format, report, report.Text, report.Count, err)
			default:
				plan, err := adopt.Read(ctx, cfg)
				if err == nil && write != "" {
					err = adopt.Write(ctx, cfg, plan, write)
				}
				if err != nil {
					return &exit.Error{Err: err, Code: exit.Usage}
				}
				return shown(streams, format, plan, plan.Text, plan.Count, nil)
			}
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&write, "write", "", "Write the files of the move to this folder, which must be empty or missing.")
	flags.BoolVar(&run, "run", false, "Take the steps of the move that have not been taken.")
	flags.IntVar(&step, "step", 0, "Take only this step, with --run. 0 takes all.")
	flags.DurationVar(&watch, "watch", adopt.Watching, "How long step 5 watches certplane, with --run.")
	flags.BoolVar(&back, "back", false, "Take the steps back.")
	flags.BoolVar(&yes, "yes", false, "Answer yes to all questions, with --run or --back.")
	flags.StringVar(&verify, "verify", "", "Compare the cluster with this file before.json, which --write has written.")
	flags.StringVar(&image, "image", "", "Container image of this program. No registry has the default image: build and push it first.")
	cmd.MarkFlagsMutuallyExclusive("write", "run", "back", "verify")
	addOutput(cmd, &format)
	connection.addTo(flags)
	return cmd
}

// shown prints what was found. The exit code shows if something failed, or is unknown.
func shown(streams genericiooptions.IOStreams, format string, found any, text func() string, count map[check.Result]int, err error) error {
	if err == nil {
		err = print.Found(streams.Out, format, found, text)
	}
	switch {
	case err != nil:
		return err
	case count[check.Failed] > 0:
		return fmt.Errorf("findings that failed: %d", count[check.Failed])
	case count[check.NotChecked] > 0:
		return &exit.Error{Err: errors.New("some objects could not be read"), Code: exit.Usage}
	}
	return nil
}

// confirm asks a question at the terminal, unless the answer is given.
func confirm(streams genericiooptions.IOStreams, question string, yes bool) (bool, error) {
	if yes {
		return true, nil
	}
	terminal := terminalOf(streams.In)
	if terminal == nil {
		return false, exit.WithNext(errors.New("not confirmed: "+question), "Without a terminal, add --yes.")
	}
	fmt.Fprintf(streams.Out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(terminal).ReadString('\n')
	said := strings.ToLower(strings.TrimSpace(line))
	return said == "y" || said == "yes", nil
}
