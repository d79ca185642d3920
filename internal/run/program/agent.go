package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/process/duration"
)

// newAgent returns the agent verb with its subcommands.
func newAgent(streams genericiooptions.IOStreams) *cobra.Command {
	var configFile string
	flags, once, timeout := agent.DefaultConfig(), false, 2*time.Minute
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Keep certificates and trust bundles on a host's disk up to date",
		Long: `Manages certificates on a plain host like a kubelet does for its pods: it obtains an
identity for the host, registers it as a node, registers the pods in a folder of
manifests, and writes their projected volumes, until it gets SIGINT or SIGTERM.
Private keys are created on the host and stay there.

SIGHUP retries refused requests at once.`,
		Example: `  certplane token create > bootstrap.kubeconfig
  certplane agent --bootstrap-kubeconfig bootstrap.kubeconfig \
      --manifests ./manifests --volumes ./volumes --data-dir ./agent
  certplane agent status --data-dir ./agent
  certplane config print-defaults --kind AgentConfiguration > agent.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := agentConfig(configFile, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			if err := cfg.Logging.Apply(streams.ErrOut); err != nil {
				return err
			}
			if once {
				return agentOnce(cmd.Context(), cfg, timeout)
			}
			again, stop := hangups(cmd.Context())
			defer stop()
			service, err := openSystemd()
			if err != nil {
				return err
			}
			service.stopWith(cmd.Context())
			return agent.Run(cmd.Context(), cfg, clock.RealClock{}, again, service.ready)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "",
		"Configuration file. Flags take precedence. See 'certplane config print-defaults --kind AgentConfiguration'.")
	cmd.Flags().BoolVar(&once, "once", once, "Write all files once, and exit; for scripts.")
	duration.Var(cmd.Flags(), &timeout, "timeout", timeout, "Time to wait for all files, with --once.")
	addAgentFlags(cmd.Flags(), &flags)
	cmd.AddCommand(newAgentStatus(streams))
	return cmd
}

// addAgentFlags adds the flags for fields of the configuration.
func addAgentFlags(flags *pflag.FlagSet, cfg *agent.Config) {
	flags.StringVar(&cfg.NodeName, "node-name", cfg.NodeName, "Name of this host's Node. Default: the host's name.")
	flags.StringVar(&cfg.BootstrapKubeconfig, "bootstrap-kubeconfig", cfg.BootstrapKubeconfig, "File with the API's address and a token for the first certificate of this host.")
	flags.StringVar(&cfg.Kubeconfig, "kubeconfig", cfg.Kubeconfig, "File with an identity for this host, instead of --bootstrap-kubeconfig.")
	flags.StringVar(&cfg.ManifestsDir, "manifests", cfg.ManifestsDir, "Folder with the manifests of this host's pods.")
	flags.StringVar(&cfg.VolumesDir, "volumes", cfg.VolumesDir, "Folder to write volumes into, as NAMESPACE/POD/VOLUME. Default: volumes in --data-dir.")
	flags.StringVar(&cfg.Metrics.BindAddress, "metrics-bind-address", cfg.Metrics.BindAddress, "Address of /metrics, /healthz and /readyz, HOST:PORT; 0 for none.")
	addAgentDataDir(flags, cfg)
	addLoggingFlags(flags, &cfg.Logging)
}

func addAgentDataDir(flags *pflag.FlagSet, cfg *agent.Config) {
	flags.StringVar(&cfg.DataDir, "data-dir", cfg.DataDir, "Folder with the host's own certificate and the agent's status.")
}

// agentConfig reads the file, if one is named, and applies the given flags on
// top.
func agentConfig(file string, flags *pflag.FlagSet, fromFlags agent.Config) (agent.Config, error) {
	cfg, err := onTop(file, agent.LoadConfig, addAgentFlags, flags, fromFlags)
	if err != nil {
		return agent.Config{}, err
	}
	return cfg.Complete(os.Hostname)
}

func agentOnce(ctx context.Context, cfg agent.Config, timeout time.Duration) error {
	late := fmt.Errorf("that took longer than --timeout, %s", timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	return agent.Once(ctx, cfg, clock.RealClock{})
}

// hangups returns a channel that receives a value for each SIGHUP until ctx
// ends.
func hangups(ctx context.Context) (<-chan struct{}, func()) {
	signals, again := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			select {
			case <-ctx.Done():
				return
			case again <- struct{}{}:
			}
		}
	}()
	return again, func() { signal.Stop(signals) }
}

// newAgentStatus returns "agent status".
func newAgentStatus(streams genericiooptions.IOStreams) *cobra.Command {
	var configFile, format string
	flags := agent.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print this host's volumes with their expiry and last error",
		Long: `Prints the current status of the agent with this folder, or its last status if it
does not run: the server and its last answer, the identity of this host and the
expiry of its own certificate, each source of each volume, and all problems.

The exit code is 0 without problems, and 6 with a problem: a missing or expired
file, an error, a server that does not answer, or an agent that does not run
(unless it ran with --once). It is 1 if no status can be read.`,
		Example: `  certplane agent status --data-dir ./agent
  certplane agent status --data-dir ./agent -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := print.CheckFormat(format); err != nil {
				return exit.UsageError(cmd.CommandPath(), err)
			}
			cfg, err := onTop(configFile, agent.LoadConfig, addAgentDataDir, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			return agentStatus(streams, cfg, format)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "Configuration file of the agent.")
	cmd.Flags().StringVarP(&format, "output", "o", "", "Output format: json or yaml. Default: text.")
	addAgentDataDir(cmd.Flags(), &flags)
	return cmd
}

func agentStatus(streams genericiooptions.IOStreams, cfg agent.Config, format string) error {
	host, err := status.Read(cfg.StatusFile())
	if err != nil {
		return err
	}
	running, err := agentRuns(cfg)
	if err != nil {
		return err
	}
	now := time.Now()
	report := status.NewReport(host.AsOnDisk(), running, now)
	if err := print.Found(streams.Out, format, report, func() string { return report.Text(now) }); err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return &exit.Error{Err: fmt.Errorf("not all is well on %s: %s", host.Node, report.Problems[0]), Code: exit.Unwell}
	}
	return nil
}

// agentRuns reports whether the agent runs. It returns nil if the user may not
// know.
func agentRuns(cfg agent.Config) (*bool, error) {
	runs, err := agent.Runs(cfg)
	if errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	return &runs, err
}
