package program

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// newControllers returns the controllers verb.
func newControllers(streams genericiooptions.IOStreams, further []controllermanager.OpenIssuers) *cobra.Command {
	var configFile string
	flags := cluster.DefaultConfig()
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Approve, sign and clean up in any Kubernetes cluster",
		Long: `Runs the certificate controllers against the API of any Kubernetes cluster until
it gets SIGINT or SIGTERM. Several such processes elect a leader.

"certplane manifests" prints the objects that install them in a cluster. There they
replace three controllers of Kubernetes:

  kube-controller-manager --controllers=*,-csrsigning,-csrapproving,-csrcleaner`,
		Example: `  certplane controllers --kubeconfig admin.kubeconfig \
      --cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key
  certplane config print-defaults --kind ControllersConfiguration > controllers.yaml
  certplane controllers --kubeconfig admin.kubeconfig --config controllers.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := onTop(configFile, cluster.LoadConfig, addControllersFlags, cmd.Flags(), flags)
			if err != nil {
				return err
			}
			if err := cfg.Logging.Apply(streams.ErrOut); err != nil {
				return err
			}
			cfg.OpenIssuers = further
			logStop(cmd.Context())
			return cluster.Run(cmd.Context(), cfg)
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "",
		"Configuration file. Flags take precedence. See 'certplane config print-defaults --kind ControllersConfiguration'.")
	addControllersFlags(cmd.Flags(), &flags)
	return cmd
}

// addControllersFlags adds the flags for fields of the configuration. Flags
// that kube-controller-manager has too have the same names as there.
func addControllersFlags(flags *pflag.FlagSet, cfg *cluster.Config) {
	client, election := &cfg.ClientConnection, &cfg.LeaderElection
	flags.StringVar(&client.Kubeconfig, "kubeconfig", client.Kubeconfig, "File with the address and the credentials for the API. Not needed in a pod.")
	flags.Float32Var(&client.QPS, "kube-api-qps", client.QPS, "Requests per second that each controller may send. 0 means no limit.")
	flags.IntVar(&client.Burst, "kube-api-burst", client.Burst, "Requests that each controller may send at once, with --kube-api-qps.")
	addChoice(flags, &cfg.Controllers, "run")
	flags.StringVar(&cfg.Namespace, "namespace", cfg.Namespace, "Namespace of the controllers' service accounts and of their lease.")
	flags.BoolVar(&cfg.UseServiceAccountCredentials, "use-service-account-credentials", cfg.UseServiceAccountCredentials,
		"Let each controller use its own service account, not the user of the kubeconfig.")
	flags.StringVar(&cfg.Publishing.RootCAFile, "root-ca-file", cfg.Publishing.RootCAFile,
		"PEM file with the CA of the API server's certificate, for the controller publish. Default: the CA of the kubeconfig.")
	sign.AddFlags(flags, &cfg.Signing)
	flags.BoolVar(&election.LeaderElect, "leader-elect", election.LeaderElect, "Elect a leader: only one of several processes works at a time.")
	flags.StringVar(&election.ResourceName, "leader-elect-resource-name", election.ResourceName, "Name of the lease.")
	flags.StringVar(&election.ResourceNamespace, "leader-elect-resource-namespace", election.ResourceNamespace, "Namespace of the lease. Default: the value of --namespace.")
	addLeaseFlags(flags, &election.LeaseTimes)
	flags.StringVar(&cfg.Metrics.BindAddress, "metrics-bind-address", cfg.Metrics.BindAddress, "Address of /metrics, HOST:PORT; 0 for none.")
	flags.StringVar(&cfg.Health.BindAddress, "health-probe-bind-address", cfg.Health.BindAddress, "Address of /healthz and /readyz, HOST:PORT; 0 for none.")
	flags.StringVar(&cfg.Webhook.BindAddress, "webhook-bind-address", cfg.Webhook.BindAddress,
		"Address of the admission webhook, HOST:PORT. It is served in pods and with controllers of cert-manager.io.")
	addLoggingFlags(flags, &cfg.Logging)
}

// addChoice adds the flag that chooses the controllers for the verb.
func addChoice(flags *pflag.FlagSet, choice *controllermanager.Selection, verb string) {
	flags.StringSliceVar((*[]string)(choice), "controllers", *choice,
		fmt.Sprintf("Controllers to %s: * for all, NAME for one more, -NAME for one less. Names: %s.", verb, strings.Join(rights.Choices(), ", ")))
}
