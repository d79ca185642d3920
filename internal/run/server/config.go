package server

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/apiserver/audit"
	"github.com/certplane/certplane/internal/apiserver/authn"
	"github.com/certplane/certplane/internal/apiserver/authz"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/controller/install"
	"github.com/certplane/certplane/internal/process/configfile"
	"github.com/certplane/certplane/internal/process/duration"
	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// configKind is the kind of the configuration file.
const configKind = "ServerConfiguration"

// Config is the configuration file of "certplane serve".
type Config struct {
	// apiVersion must be config.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// kind must be ServerConfiguration.
	Kind string `json:"kind"`

	// dataDir is the folder for everything that the server keeps: the
	// embedded etcd, certificates and private keys, admin.kubeconfig.
	// Default: $CERTPLANE_DATA_DIR, else /var/lib/certplane for root and
	// ~/.local/share/certplane for others. Flag: --data-dir.
	DataDir string `json:"dataDir,omitempty"`

	// serving configures the API's address and certificate.
	Serving ServingConfig `json:"serving"`
	// etcd configures the store of objects.
	Etcd EtcdConfig `json:"etcd"`
	// inventory sets how long the records of issued certificates are kept.
	Inventory InventoryConfig `json:"inventory"`
	// revocation configures how other programs learn which certificates are revoked.
	Revocation RevocationConfig `json:"revocation"`
	// leaderElection configures the election among servers that share an etcd
	// (etcd.servers): one of them runs the controllers and signs. Without
	// etcd.servers there is no election.
	LeaderElection controllermanager.LeaseTimes `json:"leaderElection"`
	// encryption configures how stored objects are encrypted.
	Encryption EncryptionConfig `json:"encryption"`
	// api selects API versions and features, and limits requests.
	API apiserver.APIConfig `json:"api"`
	// authentication selects the credentials that are accepted.
	Authentication authn.Settings `json:"authentication"`
	// authorization selects the authorizers, which decide what users may do.
	Authorization authz.Settings `json:"authorization"`
	// admission selects admission plugins.
	Admission admission.Config `json:"admission"`
	// audit selects the requests to record, and the destination of the records.
	Audit audit.Config `json:"audit"`
	// console configures the pages that browsers are served next to the API.
	Console console.Settings `json:"console"`
	// logging configures the server's log.
	Logging logging.Config `json:"logging"`
	// tracing sets the destination of traces of requests.
	Tracing apiserver.TracingConfig `json:"tracing"`

	controllermanager.Settings

	// NewPKI is the operator's word, for one start, that the store shall
	// belong to the keys in pki/, whatever it belonged to before.
	NewPKI bool `json:"-"`
}

// ServingConfig is the stanza "serving".
type ServingConfig struct {
	// listen is the address of the API, HOST:PORT. Port 0 picks a free one.
	// Default: 127.0.0.1:6443. Flag: --listen.
	Listen string `json:"listen,omitempty"`
	// extraNames are further DNS names and IP addresses at which clients reach
	// the server, in addition to the listen address, localhost and this host's
	// name. They go into the serving certificate. Default: none.
	ExtraNames []string `json:"extraNames,omitempty"`
	// advertiseAddress is the address of this server for clients on other hosts,
	// IP or IP:PORT. The Service default/kubernetes and the serving certificate
	// name it. Default: the listen address; if that stands for all addresses of
	// this host, the address of the default route.
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`
	// tls configures TLS of the connections.
	TLS apiserver.TLSConfig `json:"tls"`
}

// EtcdConfig is the stanza "etcd".
type EtcdConfig struct {
	// servers are the URLs of an external etcd cluster, for high availability.
	// Default: none, which runs an etcd inside the server. Flag: --etcd-servers.
	Servers []string `json:"servers,omitempty"`
	// caFile is a PEM bundle that the servers' certificates must chain to.
	// Flag: --etcd-cafile.
	CAFile string `json:"caFile,omitempty"`
	// certFile and keyFile are the client certificate for the servers. Set
	// both or none. Flag: --etcd-certfile.
	CertFile string `json:"certFile,omitempty"`
	// keyFile belongs to certFile. Flag: --etcd-keyfile.
	KeyFile string `json:"keyFile,omitempty"`
	// prefix is the root of all keys. Default: /registry, as kube-apiserver's.
	// Flag: --etcd-prefix.
	Prefix string `json:"prefix,omitempty"`
	// quotaMiB is the maximum space in use in the store, in MiB. Above it, only
	// the server itself and members of system:masters can write more, for which
	// an eighth more (at least 16 MiB) is reserved; all users can still delete.
	// The file on disk can be twice as large, because deletions leave holes. With
	// an external etcd, eight ninths of its own limit (its --quota-backend-bytes)
	// apply if that is less. Default: 8192, as with 0.
	QuotaMiB int `json:"quotaMiB"`
	// maxPercentPerTenant is the share of the quota, in percent, that one tenant
	// may use when more than half of the quota is in use. A tenant is a
	// namespace; for CertificateSigningRequests and PodCertificateRequests it is
	// the requester. All nodes together may use half of the quota. 0 means no
	// limit. Default: 20.
	MaxPercentPerTenant int `json:"maxPercentPerTenant"`
}

// InventoryConfig is the stanza "inventory".
type InventoryConfig struct {
	// keep is how long a record is kept after the end of its certificate, to the
	// next day: from 1d to 3650d. Each record takes about 160 bytes of the store
	// and 50 bytes of memory, and counts for the tenant of its request until it
	// is deleted. For example, 100 certificates an hour that each live for an
	// hour are a million records in 400d. Default: 7d.
	Keep metav1.Duration `json:"keep"`
}

// What inventory.keep can be.
const (
	defaultKeepRecords = 7 * 24 * time.Hour
	leastKeepRecords   = 24 * time.Hour
	mostKeepRecords    = 3650 * 24 * time.Hour
)

func (c InventoryConfig) validate() error {
	if c.Keep.Duration < leastKeepRecords || c.Keep.Duration > mostKeepRecords {
		return fmt.Errorf("inventory.keep: %s is out of range: must be from %s to %s",
			duration.Format(c.Keep.Duration), duration.Format(leastKeepRecords), duration.Format(mostKeepRecords))
	}
	return nil
}

// DefaultConfig is the configuration of a server that gets no file.
func DefaultConfig() Config {
	settings := controllermanager.DefaultSettings()
	settings.PodSigners.Install = []string{install.ServerCertificates}
	settings.TrustBundles.SecretTargets = true
	return Config{
		APIVersion: configfile.APIVersion,
		Kind:       configKind,
		Serving:    ServingConfig{Listen: "127.0.0.1:6443", TLS: apiserver.DefaultTLSConfig()},
		Etcd:       EtcdConfig{Prefix: "/registry", QuotaMiB: defaultQuotaMiB, MaxPercentPerTenant: 20},
		Inventory:  InventoryConfig{Keep: metav1.Duration{Duration: defaultKeepRecords}},
		Revocation: defaultRevocationConfig(),
		LeaderElection: controllermanager.LeaseTimes{
			LeaseDuration: metav1.Duration{Duration: 10 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 7 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: time.Second},
		},
		API:            apiserver.DefaultAPIConfig(),
		Authentication: authn.DefaultSettings(),
		Admission:      admission.Config{},
		Audit:          audit.DefaultConfig(),
		Console:        console.DefaultSettings(),
		Logging:        logging.DefaultConfig(),
		Settings:       settings,
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

// Validate reports the values that cannot work, by their fields: the first one of
// each part.
func (c Config) Validate() error {
	return errors.Join(
		c.Etcd.validateFiles(), c.Etcd.validateSpace(), c.Inventory.validate(), c.Revocation.validate(), c.checkListen(), c.LeaderElection.Validate(), c.Serving.validate(), c.Serving.TLS.Validate(), c.API.Validate(),
		c.Authentication.Validate(), c.Audit.Validate(), c.Console.Validate(), c.Logging.Validate(), c.Admission.Validate(), c.Settings.Validate(),
	)
}

func (c EtcdConfig) validateFiles() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("etcd.certFile and etcd.keyFile: set both or none")
	}
	return nil
}

// DefaultsFile is a commented configuration file with every default. It is
// generated from the fields' doc comments.
//
//go:embed zz_generated.defaults.yaml
var DefaultsFile string
