package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/client/cli/policy/replay"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

const policyReplayLong = `Decides past requests by two sets of policies, and reports the decisions that differ:
requests that new policies would have denied, and requests that they would have let pass.

Requests are read from decision logs (--from-log), from audit logs in JSON lines with the
bodies of requests (--from-audit), from files (--from-dir), and from the server's store
(--stored). - is the standard input. A decision log contains a line for each stage of a
request: --stage selects one.

--old names files with policies, or is "logged" for the past decisions: from the log, the
audit annotation or the conditions of the request. Default: the policies of the server.
--new names files with all policies that would be enforced, or a policy in the mode
Shadow or Warn, which is then enforced in place of the policy that it replaces.

Recorded facts are used where they exist. Other facts are today's, from --facts and from
the server if it is needed anyway; the report counts these requests. If a fact is
missing, the decision is Wait: facts are never guessed. Exceptions apply that were valid
at the time of the request. A decision that becomes less strict is marked LOOSER.

Exit codes: 0 no decision differs (or none that --fail-on names), 1 decisions differ,
2 the requests or policies could not be read.`

const policyReplayExample = `  # What would the policies in this folder have decided last month?
  certplane policy replay --from-log decisions.log --stage Approver --new policies/
  # May the policy web-shop-next take the place of web-shop?
  certplane policy replay --stored --new web-shop-next --fail-on looser
  # Without a server
  certplane policy replay --from-dir requests/ --facts facts.yaml --old policies/ --new next/ --each`

// replayFlags are the flags of "policy replay".
type replayFlags struct {
	cfg                     replay.Config
	source                  policySource
	old, new, stage, failOn string
}

func newPolicyReplay(streams genericiooptions.IOStreams) *cobra.Command {
	f := &replayFlags{failOn: string(replay.FailOnAny)}
	f.cfg = replay.Config{Workers: runtime.GOMAXPROCS(0), Now: time.Now, Stdin: streams.In, Stdout: streams.Out, Stderr: streams.ErrOut}
	cmd := &cobra.Command{
		Use:     "replay",
		Short:   "Decide past requests by old and new policies",
		Long:    policyReplayLong,
		Example: policyReplayExample,
		Args:    noArgs,
		RunE: policyRun(func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			if err := f.open(cmd.Context()); err != nil {
				return err
			}
			// Little is in memory at a time: collecting garbage less often costs some
			// ten MiB and saves a quarter of the time.
			debug.SetGCPercent(400)
			return replay.Run(cmd.Context(), f.cfg)
		}),
	}
	f.addTo(cmd)
	return cmd
}

var replayStages = []string{
	string(v1alpha1.StageCreate), string(v1alpha1.StageOwner), string(v1alpha1.StageApprove),
	string(v1alpha1.StageApprover), string(v1alpha1.StageSign), string(v1alpha1.StageAnswer),
}

func (f *replayFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.cfg.Logs, "from-log", nil, "Decision log to read. Repeatable.")
	flags.StringArrayVar(&f.cfg.Audits, "from-audit", nil, "Audit log with an event of audit.k8s.io/v1 in each line. Repeatable.")
	flags.StringArrayVar(&f.cfg.Dirs, "from-dir", nil, "File or folder with requests, such as kubectl get -o json writes. Repeatable.")
	flags.BoolVar(&f.cfg.Stored, "stored", false, "Read the requests in the server's store.")
	flags.StringVar(&f.stage, "stage", "", "Stage of the decisions in a decision log: "+strings.Join(replayStages, ", ")+". Default: all.")
	flags.StringVar(&f.old, "old", "", `File or folder with the policies to compare with, or "logged". Default: the policies of the server.`)
	flags.StringVar(&f.new, "new", "", "File or folder with the new policies, or the name of a policy in the mode Shadow or Warn.")
	f.source.addFactsTo(flags)
	flags.BoolVar(&f.cfg.OwnSigner, "own-signer", false, "Treat the signers as certplane's, which set and shorten lifetimes as policies require. Decision logs record this already.")
	flags.BoolVar(&f.cfg.Verify, "verify", false, "Verify the signatures of the requests.")
	flags.BoolVar(&f.cfg.Each, "each", false, "Write both decisions on each request as a line of JSON, and the report to the standard error.")
	flags.StringVar(&f.failOn, "fail-on", f.failOn, "Differences that set the exit code 1: "+strings.Join(replay.FailOns, ", ")+".")
	flags.IntVar(&f.cfg.Workers, "workers", f.cfg.Workers, "Number of decisions made at the same time.")
	addOutput(cmd, &f.cfg.Output)
	f.source.connection.addTo(flags)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(replay.FailOns, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions(replayStages, cobra.ShellCompDirectiveNoFileComp)))
}

func (f *replayFlags) check() error {
	f.cfg.FailOn, f.cfg.Stage = replay.FailOn(f.failOn), v1alpha1.DecisionStage(f.stage)
	switch {
	case len(f.cfg.Logs)+len(f.cfg.Audits)+len(f.cfg.Dirs) == 0 && !f.cfg.Stored:
		return errors.New("name the requests: --from-log, --from-audit, --from-dir or --stored")
	case f.new == "":
		return errors.New("name the new policies with --new")
	case !slices.Contains(replay.FailOns, f.failOn):
		return fmt.Errorf("--fail-on is %q, want %s", f.failOn, strings.Join(replay.FailOns, ", "))
	case f.stage != "" && !slices.Contains(replayStages, f.stage):
		return fmt.Errorf("--stage is %q, want %s", f.stage, strings.Join(replayStages, ", "))
	case f.cfg.Workers < 1:
		return fmt.Errorf("--workers is %d, want at least 1", f.cfg.Workers)
	}
	return print.CheckFormat(f.cfg.Output)
}

// logged is the value of --old for the past decisions.
const logged = "logged"

// open reads the policies, and connects to the server if policies, facts or requests are
// read from it.
func (f *replayFlags) open(ctx context.Context) error {
	_, err := os.Stat(f.new)
	newIsName := err != nil && !strings.ContainsAny(f.new, "/.")
	base := &policyBase{}
	if f.old != "" && f.old != logged {
		if err := base.fromFiles(f.old); err != nil {
			return fmt.Errorf("--old: %w", err)
		}
	}
	var api *explain.API
	if needsOld := f.old == "" || newIsName && f.old == logged; f.cfg.Stored || needsOld {
		if api, err = f.source.connection.policyAPI(); err != nil {
			return err
		}
		f.cfg.API = api
		if needsOld {
			if base.policies, base.exceptions, err = policyset.List(ctx, api); err != nil {
				return exit.Advise("reading the policies", err)
			}
		}
	}
	if f.old != logged {
		f.cfg.Old = certpolicy.NewSet(base.policies, base.exceptions)
	}
	if f.cfg.New, err = f.newSet(base, newIsName); err != nil {
		return fmt.Errorf("--new: %w", err)
	}
	return f.openFacts(api)
}

func (f *replayFlags) newSet(base *policyBase, isName bool) (*certpolicy.Set, error) {
	if !isName {
		next := &policyBase{}
		if err := next.fromFiles(f.new); err != nil {
			return nil, err
		}
		return certpolicy.NewSet(next.policies, next.exceptions), nil
	}
	promoted, err := policyset.Promoted(base.policies, f.new)
	if err != nil {
		return nil, err
	}
	return certpolicy.NewSet(promoted, base.exceptions), nil
}

// openFacts reads the facts in files. api may be nil.
func (f *replayFlags) openFacts(api *explain.API) error {
	store, err := readFacts(f.source.facts)
	if err != nil {
		return err
	}
	finder := &facts.Finder{Objects: &replay.Remembered{Reader: store}, Access: store.Access, Controllers: f.source.controllers}
	finder.RequestsUnknown = api == nil && !store.HasRequests()
	f.source.outside.complete(finder, nil)
	if api != nil {
		both := facts.Over{First: store, Then: api}
		finder.Objects, finder.Access = &replay.Remembered{Reader: both}, replay.RememberAccess(both.Access(policies.Reviews(api)))
		f.source.outside.complete(finder, api)
	}
	seals := finder.SealKeys
	finder.SealKeys = func(ctx context.Context) ([]ed25519.PublicKey, error) {
		keys, err := seals(ctx)
		if err != nil { // the other facts that are missing are in the report
			fmt.Fprintf(f.cfg.Stderr, "Warning: %v\n", err)
		}
		return keys, err
	}
	f.cfg.Today = finder
	return nil
}
