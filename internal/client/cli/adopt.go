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

Without another flag it reads the cluster, and prints what the program does in it, what
certplane covers, and what it would issue or write at once. It changes nothing.

--write writes the files of the move, with fingerprints of all certificates and keys.
--run takes its steps, asks before each one, and stops at the first surprise. Its state
is in the cluster: it can be interrupted and started again. --back takes them back.

You need the rights of an administrator. Keys are compared, never printed or stored.

Exit codes: 0 everything is covered, 1 something is not, 2 something could not be read.`

const adoptExample = `  certplane adopt cert-manager
  certplane adopt cert-manager --write move --image registry.example.com/certplane:v1
  certplane adopt cert-manager --run --image registry.example.com/certplane:v1
  certplane adopt cert-manager --verify move/before.json
  certplane adopt cert-manager --back`

// Manifests returns the objects that install the controllers from an image, with a
// configuration file in YAML. An empty image stands for the one of this build.
type Manifests func(config []byte, image string) ([]runtime.Object, error)

// adoptable are the programs that the adopt verb replaces.
var adoptable = []string{"cert-manager", "trust-manager"}

// adoptFlags are the flags of the adopt verb.
type adoptFlags struct {
	connection
	format, write, verify, image string
	run, back, yes               bool
	step                         int
}

// NewAdopt returns the adopt verb.
func NewAdopt(streams genericiooptions.IOStreams, manifests Manifests) *cobra.Command {
	var f adoptFlags
	cmd := &cobra.Command{
		Use:               "adopt " + strings.Join(adoptable, "|"),
		Short:             "Replace cert-manager or trust-manager in a cluster",
		Long:              adoptLong,
		Example:           adoptExample,
		ValidArgsFunction: cobra.FixedCompletions(adoptable, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.UsageError(cmd.CommandPath(), fmt.Errorf("name the program to replace: %s", strings.Join(adoptable, " or ")))
			}
			if err := errors.Join(print.CheckFormat(f.format), f.check()); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			log.SetLogger(klog.Background()) // without one, clients print a stack after half a minute
			cfg := adopt.Config{
				Program: args[0], Line: f.line, Out: streams.Out, Careless: f.yes, Now: time.Now, Sleep: adopt.Sleep,
				Manifests: func(config []byte) ([]runtime.Object, error) { return manifests(config, f.image) },
				Ask:       func(question string) (bool, error) { return f.confirm(streams, question) },
			}
			var err error
			if cfg.Client, err = f.clientConfig(io.Discard); err != nil {
				return err
			}
			cfg.Client.QPS = -1 // the API server limits this client
			return f.do(cmd, streams, cfg)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.write, "write", "", "Write the files of the move to this folder, which must be empty or missing.")
	flags.BoolVar(&f.run, "run", false, "Take the steps of the move that have not been taken, and ask before each one.")
	flags.IntVar(&f.step, "step", 0, "Take only this step, with --run. 0 takes all.")
	flags.BoolVar(&f.back, "back", false, "Take the steps back.")
	flags.BoolVar(&f.yes, "yes", false, "Answer yes to all questions, with --run or --back.")
	flags.StringVar(&f.verify, "verify", "", "Compare the cluster with this file before.json.")
	flags.StringVar(&f.image, "image", "", "Container image of this program. No registry has the default image: build and push it first.")
	addOutput(cmd, &f.format)
	f.addTo(flags)
	return cmd
}

// check returns an error for flags that exclude each other.
func (f *adoptFlags) check() error {
	given := 0
	for _, is := range []bool{f.write != "", f.run, f.back, f.verify != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("--write, --run, --back and --verify exclude each other: use one of them")
	case f.step != 0 && !f.run:
		return errors.New("--step needs --run")
	case f.yes && !f.run && !f.back:
		return errors.New("--yes needs --run or --back")
	}
	return nil
}

func (f *adoptFlags) do(cmd *cobra.Command, streams genericiooptions.IOStreams, cfg adopt.Config) error {
	ctx := cmd.Context()
	switch {
	case f.run:
		return adopt.Run(ctx, cfg, f.step)
	case f.back:
		return adopt.Back(ctx, cfg)
	case f.verify != "":
		before, err := adopt.ReadBefore(f.verify)
		if err != nil {
			return err
		}
		report, err := adopt.Verify(ctx, cfg, before)
		if err != nil {
			return err
		}
		return f.show(streams, report, report.Text, report.Count)
	}
	plan, err := adopt.Read(ctx, cfg)
	if err != nil {
		return err
	}
	if f.write != "" {
		if err := adopt.Write(ctx, cfg, plan, f.write); err != nil {
			return err
		}
	}
	return f.show(streams, plan, plan.Text, plan.Count)
}

// show prints what was found; its exit code is that of the worst finding.
func (f *adoptFlags) show(streams genericiooptions.IOStreams, found any, text func() string, count map[check.Result]int) error {
	if err := print.Found(streams.Out, f.format, found, text); err != nil {
		return err
	}
	switch {
	case count[check.Failed] > 0:
		return fmt.Errorf("findings that failed: %d", count[check.Failed])
	case count[check.NotChecked] > 0:
		return &exit.Error{Err: errors.New("some objects could not be read"), Code: exit.Usage}
	}
	return nil
}

// confirm asks a question at the terminal.
func (f *adoptFlags) confirm(streams genericiooptions.IOStreams, question string) (bool, error) {
	if f.yes {
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
