package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/admission"
	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/audit"
	"github.com/certplane/certplane/internal/authn"
	"github.com/certplane/certplane/internal/authz"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/logging"
)

// The type of the configuration file.
const (
	configAPIVersion = "config.certplane.dev/v1alpha1"
	configKind       = "ServerConfiguration"
)

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

	// serving says where the API is reachable.
	Serving ServingConfig `json:"serving"`
	// etcd says where objects are stored.
	Etcd EtcdConfig `json:"etcd"`
	// encryption says how what is stored is encrypted.
	Encryption EncryptionConfig `json:"encryption"`
	// api switches API versions and features.
	API apiserver.APIConfig `json:"api"`
	// authentication says which credentials are honoured.
	Authentication authn.Settings `json:"authentication"`
	// authorization chooses who decides what users may do.
	Authorization authz.Settings `json:"authorization"`
	// admission switches admission plugins.
	Admission admission.Config `json:"admission"`
	// audit records who asked the API for what.
	Audit audit.Config `json:"audit"`
	// logging says what the server tells about itself.
	Logging logging.Config `json:"logging"`
	// tracing tells where the time of requests goes.
	Tracing apiserver.TracingConfig `json:"tracing"`

	controllers.Settings
}

// ServingConfig is the stanza "serving".
type ServingConfig struct {
	// listen is the address of the API, HOST:PORT. Port 0 picks a free one.
	// Default: 127.0.0.1:6443. Flag: --listen.
	Listen string `json:"listen,omitempty"`
	// extraNames are DNS names and IP addresses by which clients reach the
	// server besides the listen address, localhost and this host's name. They
	// go into the serving certificate. Default: none.
	ExtraNames []string `json:"extraNames,omitempty"`
	// tls rules the connections.
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
}

// DefaultConfig is the configuration of a server that gets no file.
func DefaultConfig() Config {
	return Config{
		APIVersion:     configAPIVersion,
		Kind:           configKind,
		Serving:        ServingConfig{Listen: "127.0.0.1:6443", TLS: apiserver.DefaultTLSConfig()},
		Etcd:           EtcdConfig{Prefix: "/registry"},
		API:            apiserver.DefaultAPIConfig(),
		Authentication: authn.DefaultSettings(),
		Admission:      admission.Config{},
		Audit:          audit.DefaultConfig(),
		Logging:        logging.DefaultConfig(),
		Settings:       controllers.DefaultSettings(),
	}
}

// LoadConfig reads the configuration in path on top of the defaults. Unknown,
// repeated and ill-typed fields are errors that name the field.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	cfg, err := parseConfig(data)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration %s: %w", path, err)
	}
	return cfg, nil
}

func parseConfig(data []byte) (Config, error) {
	if err := checkOneDocument(data); err != nil {
		return Config{}, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return Config{}, err
	}
	cfg := DefaultConfig()
	cfg.APIVersion, cfg.Kind = "", ""
	strictErrs, err := kjson.UnmarshalStrict(asJSON, &cfg)
	if err != nil {
		return Config{}, err
	}
	if len(strictErrs) > 0 {
		return Config{}, strictErrs[0]
	}
	if cfg.APIVersion != configAPIVersion || cfg.Kind != configKind {
		return Config{}, fmt.Errorf("apiVersion and kind are %q and %q, must be %q and %q",
			cfg.APIVersion, cfg.Kind, configAPIVersion, configKind)
	}
	return cfg, cfg.Validate()
}

// checkOneDocument refuses a second YAML document, which the parser would
// leave out without a word. Documents of comments alone do not count.
func checkOneDocument(data []byte) error {
	documents, reader := 0, utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if asJSON, err := yaml.YAMLToJSON(document); err == nil && string(asJSON) != "null" {
			documents++
		}
		if documents > 1 {
			return errors.New("there is more than one YAML document")
		}
	}
}

// Validate reports the first value that cannot work, by its field.
func (c Config) Validate() error {
	if (c.Etcd.CertFile == "") != (c.Etcd.KeyFile == "") {
		return fmt.Errorf("etcd.certFile and etcd.keyFile: set both or none")
	}
	if err := c.Serving.validate(); err != nil {
		return err
	}
	if err := c.Serving.TLS.Validate(); err != nil {
		return err
	}
	if err := c.API.Validate(); err != nil {
		return err
	}
	if err := c.Authentication.Validate(); err != nil {
		return err
	}
	if err := c.Audit.Validate(); err != nil {
		return err
	}
	if err := c.Logging.Validate(); err != nil {
		return err
	}
	if err := c.Admission.Validate(); err != nil {
		return err
	}
	return c.Settings.Validate()
}
