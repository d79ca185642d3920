package agent

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/hostcert"
	"github.com/certplane/certplane/internal/agent/volume"
	"github.com/certplane/certplane/internal/process/configfile"
	"github.com/certplane/certplane/internal/process/logging"
)

// configKind is the kind of the configuration file.
const configKind = "AgentConfiguration"

// Config is the configuration file of "certplane agent".
type Config struct {
	// apiVersion must be config.certplane.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// kind must be AgentConfiguration.
	Kind string `json:"kind"`

	// nodeName is the name of this host's Node. Two hosts with the same name
	// would replace each other's certificates. Default: the host's name, in
	// lower case. Flag: --node-name.
	NodeName string `json:"nodeName,omitempty"`
	// bootstrapKubeconfig is a file with the address of the API and a token for the first
	// certificate of this host; "certplane token create" prints one. It is needed only
	// until the host has that certificate, which is then renewed automatically. Default:
	// none. Flag: --bootstrap-kubeconfig.
	BootstrapKubeconfig string `json:"bootstrapKubeconfig,omitempty"`
	// kubeconfig is a file with the host's own credentials, in place of
	// bootstrapKubeconfig. Its user must be the node: system:node:NAME in the group
	// system:nodes. Default: none. Flag: --kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// dataDir is the folder for this host's own certificate and the agent's status.
	// Default: /var/lib/certplane-agent. Flag: --data-dir.
	DataDir string `json:"dataDir"`
	// manifestsDir is the folder with the pod manifests of this host: *.yaml, *.yml and
	// *.json. The agent notices changes within two seconds. It deletes the files of a
	// removed manifest after ten seconds. Default: /etc/certplane/manifests. Flag:
	// --manifests.
	ManifestsDir string `json:"manifestsDir"`
	// volumesDir is the folder for volumes, as NAMESPACE/POD/VOLUME, and for keys between
	// requests (in .agent). On a file system in memory, such as /run/certplane, private
	// keys never reach a disk, and all keys are recreated after a reboot. Default: volumes
	// in dataDir. Flag: --volumes.
	VolumesDir string `json:"volumesDir,omitempty"`
	// afterRefresh lists actions after a change of the files of a volume: run a command, or
	// send a signal. A failed action is tried again, except after the first files. Only
	// this file can configure actions; manifests and API objects cannot. Default: none.
	AfterRefresh []hook.Action `json:"afterRefresh,omitempty"`
	// certificates are the certificates of programs on this host, without manifests, such
	// as {signer: example.com/hosts, dnsNames: [www.example.com], directory:
	// /etc/nginx/tls}. Each element sets signer and directory, where tls.crt and tls.key
	// are written. It can also set name, dnsNames, ipAddresses, files (certificate, key,
	// bundle, roots, crl, crlDER), owner, group, mode (0644; keys 0600), keyType (ECDSAP256), duration
	// (24h), namespace and serviceAccount (default, default), and afterRefresh, a list of
	// command or of signal with pidFile. The host needs the verb host on the service
	// account. If certificates are set, manifestsDir does not have to exist. The files of a
	// removed element are not deleted. Default: none.
	Certificates []hostcert.Certificate `json:"certificates,omitempty"`
	// metrics sets the address of /metrics.
	Metrics MetricsConfig `json:"metrics"`
	// logging configures the log.
	Logging logging.Config `json:"logging"`
}

// MetricsConfig is the stanza "metrics".
type MetricsConfig struct {
	// bindAddress is the address of /metrics, /healthz and /readyz, HOST:PORT, served
	// without TLS or authentication; "0" disables them. /readyz fails while a file of a
	// manifest is missing, a manifest cannot be used, the host's own certificate is not
	// valid, or the server refuses it or has not answered for two minutes. /readyz/files,
	// /readyz/manifests, /readyz/identity and /readyz/server report the single checks.
	// Default: 127.0.0.1:8083. Flag: --metrics-bind-address.
	BindAddress string `json:"bindAddress"`
}

// DefaultConfig returns the configuration of an agent without a file.
func DefaultConfig() Config {
	return Config{
		APIVersion:   configfile.APIVersion,
		Kind:         configKind,
		DataDir:      "/var/lib/certplane-agent",
		ManifestsDir: "/etc/certplane/manifests",
		Metrics:      MetricsConfig{BindAddress: "127.0.0.1:8083"},
		Logging:      logging.DefaultConfig(),
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

// Complete fills in the values that depend on the host; hostname returns the
// host's name from its operating system.
func (c Config) Complete(hostname func() (string, error)) (Config, error) {
	if c.NodeName == "" {
		name, err := hostname()
		if err != nil {
			return c, fmt.Errorf("nodeName: missing, and the host's name is not known: %w", err)
		}
		c.NodeName = strings.ToLower(strings.TrimSpace(name))
	}
	for _, path := range []*string{&c.DataDir, &c.ManifestsDir, &c.VolumesDir} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return c, fmt.Errorf("finding %s: %w", *path, err)
		}
		*path = absolute
	}
	if c.VolumesDir == "" && c.DataDir != "" {
		c.VolumesDir = filepath.Join(c.DataDir, "volumes")
	}
	return c, c.Validate()
}

// Validate returns an error for the first invalid value, with the name of its field.
func (c Config) Validate() error {
	if problems := validation.IsDNS1123Subdomain(c.NodeName); c.NodeName != "" && len(problems) > 0 {
		return fmt.Errorf("nodeName: %q is not a valid name for a node: %s", c.NodeName, problems[0])
	}
	for _, dir := range []struct{ field, path string }{{"dataDir", c.DataDir}, {"manifestsDir", c.ManifestsDir}} {
		if dir.path == "" {
			return fmt.Errorf("%s: missing", dir.field)
		}
	}
	if c.Kubeconfig != "" && c.BootstrapKubeconfig != "" {
		return errors.New("kubeconfig and bootstrapKubeconfig: set one of them")
	}
	for i, action := range c.AfterRefresh {
		if err := action.Validate(); err != nil {
			return fmt.Errorf("afterRefresh[%d].%w", i, err)
		}
	}
	if err := hostcert.Validate(c.Certificates); err != nil {
		return err
	}
	if err := c.Metrics.Validate(); err != nil {
		return err
	}
	return c.Logging.Validate()
}

// disabledAddress is the address that disables serving.
const disabledAddress = "0"

// Validate returns an error for the first invalid value, with the name of its field.
func (c MetricsConfig) Validate() error {
	if c.BindAddress == disabledAddress {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.BindAddress); err != nil {
		return fmt.Errorf("metrics.bindAddress: %q is not HOST:PORT, nor 0 for none", c.BindAddress)
	}
	return nil
}

// Paths in the agent's folders.

// StatusFile is the file with the status of the agent's volumes. It holds no
// secrets.
func (c Config) StatusFile() string { return filepath.Join(c.DataDir, "status.json") }

func (c Config) identityDir() string { return filepath.Join(c.DataDir, "identity") }

// recordsDir is in the folder of the volumes: if the volumes are only in memory, the keys
// that wait for certificates are as well. Names of namespaces cannot begin with a dot.
func (c Config) recordsDir() string { return filepath.Join(c.VolumesDir, ".agent") }

func (c Config) lockFile() string { return filepath.Join(c.DataDir, "lock") }

// prepare creates the folders. Regardless of the umask, other users may enter them, to read
// the status and their own files: secret files are protected by a separate folder or by
// their mode.
func (c Config) prepare() error {
	for _, dir := range []string{c.DataDir, c.VolumesDir} {
		if err := volume.MakeDir(dir); err != nil {
			return fmt.Errorf("making the agent's folders: %w", err)
		}
	}
	return nil
}
