package program

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/process/gcpace"
	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/internal/run/server"
)

// newServe returns the serve verb.
func newServe(streams genericiooptions.IOStreams, further []controllermanager.OpenIssuers) *cobra.Command {
	var configFile string
	var newPKI bool
	flags := server.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a certificate control plane: API server, store and controllers",
		Long: `Runs a standalone certificate control plane until it gets SIGINT or SIGTERM.

The first start on an empty data folder creates certificates and keys. When the
server is ready, DIR/admin.kubeconfig grants all rights on it.`,
		Example: `  certplane serve --data-dir ./data --listen 127.0.0.1:6443
  certplane config print-defaults > server.yaml && certplane serve --config server.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			if err := cfg.Logging.Apply(streams.ErrOut); err != nil {
				return err
			}
			cfg.NewPKI, cfg.OpenIssuers = newPKI, further
			klog.InfoS("Starting certplane", "version", buildinfo.Read().Version, "dataDir", cfg.DataDir)
			logStop(cmd.Context())
			service, err := openSystemd()
			if err != nil {
				return err
			}
			service.stopWith(cmd.Context())
			started, stop := keepPace(cmd.Context())
			defer stop()
			return server.Run(cmd.Context(), cfg, func(r server.Ready) {
				announce(streams.Out, cfg.Logging.Format, r)
				service.ready()
				time.AfterFunc(settled, started)
			})
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "", "Configuration file. Flags take precedence. See 'certplane config print-defaults'.")
	cmd.Flags().BoolVar(&newPKI, "new-pki", newPKI, "Start once although the folder pki does not belong to the store: with its keys, and with new keys for missing ones.")
	addConfigFlags(cmd.Flags(), &flags)
	return cmd
}

// logStop logs the end of ctx, the lifetime of this process's work, and then keeps
// libraries from logging their unfinished work.
func logStop(ctx context.Context) {
	logging.StopWith(ctx)
	context.AfterFunc(ctx, func() {
		klog.InfoS("Stopping: requests and controllers finish their current work")
	})
}

// settled is the time that remaining work takes after a start.
const settled = 5 * time.Second

// keepPace adapts the garbage collector of this process to the pace of its work
// until stop is called. The caller must call started once, when the start is
// over.
func keepPace(ctx context.Context) (started, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var keeping sync.WaitGroup
	keeping.Go(func() { gcpace.Run(ctx, over) })
	return func() { close(over) }, func() {
		cancel()
		keeping.Wait()
	}
}

// addConfigFlags adds the flags for fields of the configuration.
func addConfigFlags(flags *pflag.FlagSet, cfg *server.Config) {
	cli.AddDataDirFlag(flags, &cfg.DataDir)
	addLoggingFlags(flags, &cfg.Logging)
	flags.StringVar(&cfg.Audit.Log.Path, "audit-log-path", cfg.Audit.Log.Path, "File that records requests and their users. '-' is standard output. Default: none.")
	flags.StringVar(&cfg.Serving.Listen, "listen", cfg.Serving.Listen, "Address of the API, HOST:PORT. Port 0 picks a free one.")
	addChoice(flags, &cfg.Controllers, "run")
	addLeaseFlags(flags, &cfg.LeaderElection)
	addEtcdFlags(flags, &cfg.Etcd)
	sign.AddFlags(flags, &cfg.Signing)
}

// addEtcdFlags adds the flags for the address of an external etcd.
func addEtcdFlags(flags *pflag.FlagSet, cfg *server.EtcdConfig) {
	flags.StringSliceVar(&cfg.Servers, "etcd-servers", cfg.Servers, "URLs of an external etcd. Default: the server runs its own etcd.")
	flags.StringVar(&cfg.CAFile, "etcd-cafile", cfg.CAFile, "CA bundle for the external etcd's certificates.")
	flags.StringVar(&cfg.CertFile, "etcd-certfile", cfg.CertFile, "Client certificate for the external etcd.")
	flags.StringVar(&cfg.KeyFile, "etcd-keyfile", cfg.KeyFile, "Private key of the client certificate for the external etcd.")
	flags.StringVar(&cfg.Prefix, "etcd-prefix", cfg.Prefix, "Root of all keys in etcd.")
}

// loadConfig reads the file, if one is named, and applies the given flags on
// top.
func loadConfig(file string, flags *pflag.FlagSet, fromFlags server.Config) (server.Config, error) {
	cfg, err := onTop(file, server.LoadConfig, addConfigFlags, flags, fromFlags)
	if err != nil {
		return server.Config{}, err
	}
	dir, err := cli.DataDir(cfg.DataDir)
	if err != nil {
		return server.Config{}, err
	}
	cfg.DataDir = string(dir)
	return cfg, cfg.Validate()
}

// announce prints the address of the server and commands to try. If the log has a format
// for programs, announce writes a line to the log instead: a program that reads one
// output often reads both.
func announce(out io.Writer, format string, r server.Ready) {
	if format == logging.JSON {
		klog.InfoS("certplane is ready", "url", r.URL, "dataDir", r.DataDir, "kubeconfig", r.Kubeconfig,
			"clientCANotAfter", r.ClientCAEnd, "servingCANotAfter", r.ServingCAEnd, "console", r.Console)
		return
	}
	pages := "switched off"
	if r.Console != "" {
		pages = r.Console + " (certplane console opens one without a login)"
	}
	fmt.Fprintf(out, `certplane is ready: %s

  data folder  %s
  kubeconfig   %s (all rights)
  CAs          of clients: until %s, of the server: until %s
  console      %s

Try in another terminal:
  export KUBECONFIG=%s
  certplane kubectl get csr
  certplane request --signer server --dns web.example.com --out web --approve
`, r.URL, r.DataDir, r.Kubeconfig, r.ClientCAEnd.Format(time.DateOnly), r.ServingCAEnd.Format(time.DateOnly), pages, r.Kubeconfig)
}
