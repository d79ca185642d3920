package cluster

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/controller/record"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/configfile"
	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// configKind is the kind of the configuration file.
const configKind = "ControllersConfiguration"

// Config is the configuration file of "certplane controllers".
type Config struct {
	// apiVersion must be config.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// kind must be ControllersConfiguration.
	Kind string `json:"kind"`

	// clientConnection configures the connection to the Kubernetes API.
	ClientConnection ClientConnection `json:"clientConnection"`
	// namespace is the namespace of the controllers' service accounts and of
	// their lease. Default: certplane-system. Flag: --namespace.
	Namespace string `json:"namespace"`
	// useServiceAccountCredentials lets each controller act as a separate service
	// account that has only that controller's rights. The accounts' tokens are
	// requested with the credentials of clientConnection and kept in memory. If
	// false, all controllers act as the user of clientConnection, who then both
	// approves and signs. Default: true. Flag: --use-service-account-credentials.
	UseServiceAccountCredentials bool `json:"useServiceAccountCredentials"`
	// leaderElection makes one of several processes work at a time.
	LeaderElection LeaderElection `json:"leaderElection"`
	// metrics sets the address and the allowed clients of /metrics.
	Metrics frontend.MetricsConfig `json:"metrics"`
	// health sets the address of /healthz and /readyz.
	Health HealthConfig `json:"health"`
	// webhook is the admission webhook for Signers, and for cert-manager.io in
	// place of cert-manager's.
	Webhook WebhookConfig `json:"webhook"`
	// revocation configures the webhook that refuses revoked certificates, and where
	// revocation lists are served.
	Revocation RevocationConfig `json:"revocation"`
	// inventory configures the controller record.
	Inventory record.Settings `json:"inventory"`
	// logging configures the log of the process.
	Logging logging.Config `json:"logging"`

	controllermanager.Settings
}

// ClientConnection is the stanza "clientConnection".
type ClientConnection struct {
	// kubeconfig is a file with the address of the API and the credentials.
	// Default: none, which uses the service account of the pod that the process runs
	// in. Flag: --kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// qps is the number of requests a second that each controller may send.
	// Default: 0, no limit: the API server's priority and fairness decides. Flag:
	// --kube-api-qps.
	QPS float32 `json:"qps"`
	// burst is the number of requests that each controller may send at once. It
	// applies only with qps, and must then be at least qps. Default: 0. Flag:
	// --kube-api-burst.
	Burst int `json:"burst"`
}

// LeaderElection is the stanza "leaderElection".
type LeaderElection struct {
	// leaderElect switches the election on. Without it, only one process may run.
	// Default: true. Flag: --leader-elect.
	LeaderElect bool `json:"leaderElect"`
	// resourceName is the name of the lease. Processes with different leases
	// ignore each other. Default: certplane-controllers. Flag:
	// --leader-elect-resource-name.
	ResourceName string `json:"resourceName"`
	// resourceNamespace is the namespace of the lease. Default: the value of
	// namespace. Flag: --leader-elect-resource-namespace.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`

	// alsoHold are Leases of other programs that do the same work as some controllers: the
	// leader takes them after its own, so that only one of the programs works. Each entry
	// sets namespace and name, and controllers, which start when the Lease is held. An entry
	// of controllers is a name or a set. The default of controllers is known for
	// cert-manager-controller, cert-manager-cainjector-leader-election and
	// trust-manager-leader-election: see docs/cert-manager.md. Default: none.
	AlsoHold []controllermanager.OtherLease `json:"alsoHold,omitempty"`

	controllermanager.LeaseTimes `json:",inline"`
}

// HealthConfig is the stanza "health".
type HealthConfig struct {
	// bindAddress is the address of /healthz and /readyz, HOST:PORT, served
	// to all clients without TLS; "0" serves none. Default: 127.0.0.1:8081.
	// Flag: --health-probe-bind-address.
	BindAddress string `json:"bindAddress"`
}

// DefaultConfig is the configuration of a process without a configuration file.
func DefaultConfig() Config {
	return Config{
		APIVersion:                   configfile.APIVersion,
		Kind:                         configKind,
		Namespace:                    rights.ClusterNamespace,
		UseServiceAccountCredentials: true,
		LeaderElection: LeaderElection{
			LeaderElect:  true,
			ResourceName: controllermanager.LeaseName,
			LeaseTimes: controllermanager.LeaseTimes{
				LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
				RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
				RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
			},
		},
		Metrics:    frontend.MetricsConfig{BindAddress: "127.0.0.1:8443"},
		Health:     HealthConfig{BindAddress: "127.0.0.1:8081"},
		Webhook:    WebhookConfig{Serve: serveAuto, BindAddress: "127.0.0.1:10250"},
		Revocation: RevocationConfig{Webhook: frontend.DefaultRevocationWebhookConfig(), Listen: frontend.Off},
		Inventory:  record.DefaultSettings(),
		Logging:    logging.DefaultConfig(),
		Settings:   controllermanager.DefaultSettings(),
	}
}

// LoadConfig reads the configuration in path on top of the defaults, strictly.
func LoadConfig(path string) (Config, error) {
	cfg := DefaultConfig()
	if err := configfile.Load(path, configKind, &cfg); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// ParseConfig is LoadConfig for the content of a file.
func ParseConfig(data []byte) (Config, error) {
	cfg := DefaultConfig()
	if err := configfile.Parse(data, configKind, &cfg); err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return cfg, nil
}

// LeaseNamespace returns the namespace of the lease.
func (c Config) LeaseNamespace() string {
	return cmp.Or(c.LeaderElection.ResourceNamespace, c.Namespace)
}

// ownLease returns the namespace and name of the lease.
func (c Config) ownLease() string { return c.LeaseNamespace() + "/" + c.LeaderElection.ResourceName }

// Validate returns errors for the invalid values, with the names of their fields:
// for the first one of each part.
func (c Config) Validate() error {
	var all []error
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		all = append(all, fmt.Errorf("namespace: %q cannot be a namespace: %s", c.Namespace, problems[0]))
	}
	for _, stanza := range []interface{ Validate() error }{
		c.ClientConnection, c.LeaderElection, c.Metrics, c.Health, c.Webhook, c.Revocation, c.Inventory, c.Logging, c.Settings,
	} {
		all = append(all, stanza.Validate())
	}
	if c.Revocation.ServesLists() && !c.work().PublishesLists() {
		all = append(all, fmt.Errorf("%s: add %s to controllers, which signs the lists", listListen, rights.PublishLists.Name))
	}
	return errors.Join(all...)
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c ClientConnection) Validate() error {
	if c.QPS < 0 {
		return fmt.Errorf("clientConnection.qps: %v must be 0, for no limit, or more", c.QPS)
	}
	if c.QPS > 0 && float32(c.Burst) < c.QPS {
		return fmt.Errorf("clientConnection.burst: %d must be at least qps", c.Burst)
	}
	return nil
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c LeaderElection) Validate() error {
	for i, row := range c.AlsoHold {
		if err := row.Validate(fmt.Sprintf("leaderElection.alsoHold[%d]", i)); err != nil {
			return err
		}
	}
	switch {
	case !c.LeaderElect:
		return nil
	case c.ResourceName == "":
		return errors.New("leaderElection.resourceName: missing")
	}
	return c.LeaseTimes.Validate()
}

// CheckLeases returns an error for the first row of leaderElection.alsoHold that is there twice
// or for which no chosen controller waits. Validate does not, because flags can replace the
// controllers of a file.
func (c Config) CheckLeases() error {
	known := []string{c.ownLease()}
	for i, row := range c.LeaderElection.AlsoHold {
		waits := func(of rights.Controller) bool {
			return slices.Contains(row.Waiting(), of.Name) && c.work().Chooses(of)
		}
		switch {
		case slices.Contains(known, row.String()):
			return fmt.Errorf("leaderElection.alsoHold[%d]: the Lease %s is the process's own, or in another row: remove this row", i, row)
		case !slices.ContainsFunc(rights.Controllers(), waits):
			return fmt.Errorf("leaderElection.alsoHold[%d].controllers: none of %s is selected, so no program would do the work of the one that uses the Lease %s: "+
				"add them to controllers, or remove this row", i, strings.Join(row.Waiting(), ", "), row)
		}
		known = append(known, row.String())
	}
	return nil
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c HealthConfig) Validate() error {
	return frontend.CheckAddress("health.bindAddress", c.BindAddress)
}

// work returns what the controllers do according to the configuration. In a
// cluster, the ACME server issues its own certificate unless the configuration
// sets another source.
func (c Config) work() controllermanager.Config {
	if c.ServesACME() && c.ACMEServer.Certificate.Own() {
		c.ACMEServer.Certificate.Self = true
	}
	return controllermanager.Config{Settings: c.Settings, InCluster: true, Status: pki.StatusInfo{ShortLived: pki.DefaultShortLived}}
}

// Accounts returns the service accounts that the chosen controllers and the
// front ends act as.
func (c Config) Accounts() []string {
	accounts := c.work().Accounts()
	if c.ServesWebhook() || c.ServesRevocations() || c.FollowsRevocations() {
		accounts = append(accounts, rights.WebhookAccount)
	}
	if c.ServesACME() {
		accounts = append(accounts, rights.ACMEServerAccount)
	}
	return accounts
}

// ServesACME reports whether the process is an ACME server.
func (c Config) ServesACME() bool { return !c.ACMEServer.Off() }

// choosesCertManager reports whether a controller of cert-manager.io is chosen.
func (c Config) choosesCertManager() bool {
	return slices.ContainsFunc(rights.Controllers(), func(controller rights.Controller) bool {
		return controller.OfCertManager() && c.work().Chooses(controller)
	})
}

// LacksCA reports whether the signers are to run without a CA to sign with.
func (c Config) LacksCA() bool {
	work := c.work()
	return work.Chooses(rights.Sign) && !work.HasCA() && len(c.Signing.Webhooks) == 0
}

// DefaultsFile is a commented configuration file with every default. It is
// generated from the fields' doc comments.
//
//go:embed zz_generated.defaults.yaml
var DefaultsFile string
