package server_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/run/server"
)

const configHead = "apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration\n"

// load reads a configuration from a file.
func load(t *testing.T, text string) (server.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.yaml")
	writeFile(t, path, []byte(text))
	cfg, err := server.LoadConfig(path)
	if err != nil && !strings.HasPrefix(err.Error(), "reading the configuration "+path+": ") {
		t.Errorf("the error does not name the file: %v", err)
	}
	return cfg, err
}

func TestLoadConfig(t *testing.T) {
	tests := []struct {
		reason string
		text   string
		change func(*server.Config)
	}{
		{"nothing but the head", configHead, func(*server.Config) {}},
		{"the defaults", server.DefaultsFile, func(*server.Config) {}},
		{"comments in documents of their own", "# Ours.\n---\n" + configHead + "---\n# The end.\n", func(*server.Config) {}},
		{"JSON", `{"kind":"ServerConfiguration","apiVersion":"config.certplane.dev/v1alpha1","dataDir":"/d"}`, func(c *server.Config) { c.DataDir = "/d" }},
		{"a field beside defaults", configHead + "serving: {extraNames: [a.example.com]}", func(c *server.Config) { c.Serving.ExtraNames = []string{"a.example.com"} }},
		{"a switch beside defaults", configHead + "api: {featureGates: {CBOR: false}}", func(c *server.Config) { c.API.FeatureGates["CBOR"] = false }},
		{"a duration", configHead + "signing: {maxDuration: 24h}", func(c *server.Config) { c.Signing.MaxDuration = metav1.Duration{Duration: 24 * time.Hour} }},
		{"a URL of lists", configHead + "revocation: {url: 'http://crl.example.com:8080/', shortLived: 0s}", func(c *server.Config) {
			c.Revocation.URL, c.Revocation.ShortLived.Duration = "http://crl.example.com:8080/", 0
		}},
		{"days", configHead + "inventory: {keep: 400d}", func(c *server.Config) { c.Inventory.Keep = metav1.Duration{Duration: 400 * 24 * time.Hour} }},
		{"an external etcd", configHead + "etcd: {servers: ['https://a:2379'], certFile: c, keyFile: k}", func(c *server.Config) {
			c.Etcd.Servers, c.Etcd.CertFile, c.Etcd.KeyFile = []string{"https://a:2379"}, "c", "k"
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := load(t, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			want := server.DefaultConfig()
			tc.change(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

// Each error names the field that the server refuses.
func TestLoadConfigRefuses(t *testing.T) {
	tests := []struct {
		reason, text string
		want         []string
	}{
		{"unknown field", configHead + "nonsense: 1", []string{`unknown field "nonsense"`}},
		{"unknown field of a stanza", configHead + "serving: {listn: a}", []string{`unknown field "serving.listn"`}},
		{"field in another case", configHead + "datadir: /d", []string{`unknown field "datadir"`}},
		{"field twice", configHead + "dataDir: a\ndataDir: b", []string{`"dataDir" already set`}},
		{"text for a number", configHead + "signing: {concurrency: many}", []string{"signing.concurrency"}},
		{"number for a text", configHead + "serving: {listen: 6443}", []string{"serving.listen"}},
		{"text for a list", configHead + "admission: {disabledPlugins: CertificateSigning}", []string{"admission.disabledPlugins"}},
		{"text for a switch", configHead + "api: {featureGates: {CBOR: off-ish}}", []string{"api.featureGates"}},
		{"duration that is none", configHead + "signing: {maxDuration: 1 year}", []string{"1 year"}},
		{"list for all", "- a", []string{"array"}},
		{"no head", "dataDir: /d", []string{"apiVersion", "kind", "config.certplane.dev/v1alpha1", "ServerConfiguration"}},
		{"nothing", "", []string{"apiVersion", "kind"}},
		{"another kind", strings.Replace(configHead, "Server", "Agent", 1), []string{"kind", "AgentConfiguration"}},
		{"another version", strings.Replace(configHead, "v1alpha1", "v2", 1), []string{"apiVersion", "config.certplane.dev/v2"}},
		{"two documents", configHead + "---\n" + configHead + "dataDir: /d", []string{"more than one YAML document"}},
		{"not YAML", configHead + "a: [", []string{"line"}},

		{"certificate without key", configHead + "etcd: {certFile: c}", []string{"etcd.certFile", "etcd.keyFile"}},
		{"key without certificate", configHead + "etcd: {keyFile: k}", []string{"etcd.certFile", "etcd.keyFile"}},
		{"address without port", configHead + "serving: {listen: localhost}", []string{"serving.listen", `"localhost"`}},
		{"port by name", configHead + "serving: {listen: 'localhost:https'}", []string{"serving.listen", `"https"`}},
		{"port out of range", configHead + "serving: {listen: ':65536'}", []string{"serving.listen", `"65536"`}},
		{"a name to be advertised", configHead + "serving: {advertiseAddress: api.example.com}", []string{"serving.advertiseAddress", `"api.example.com"`, "serving.extraNames"}},
		{"all addresses to be advertised", configHead + "serving: {advertiseAddress: '0.0.0.0'}", []string{"serving.advertiseAddress", "0.0.0.0"}},
		{"port 0 to be advertised", configHead + "serving: {advertiseAddress: '192.0.2.7:0'}", []string{"serving.advertiseAddress", "port 0"}},
		{"unknown version", configHead + "api: {runtimeConfig: {certificates.k8s.io/v2: true}}", []string{"api.runtimeConfig", `"certificates.k8s.io/v2"`}},
		{"unknown feature", configHead + "api: {featureGates: {Fun: true}}", []string{"api.featureGates", `"Fun"`}},
		{"unknown plugin", configHead + "admission: {disabledPlugins: [Fun]}", []string{"admission.disabledPlugins[0]", `"Fun"`}},
		{"issuer without TLS", configHead + "authentication: {serviceAccounts: {issuer: 'http://a.example'}}", []string{"authentication.serviceAccounts.issuer", "https://"}},
		{"duration that is too short", configHead + "signing: {maxDuration: 59s}", []string{"signing.maxDuration", "59s"}},
		{"lists by TLS", configHead + "revocation: {url: 'https://crl.example.com'}", []string{`revocation.url: "https://crl.example.com": must begin with http://, because a list cannot need a certificate`}},
		{"lists without a scheme", configHead + "revocation: {url: 'crl.example.com'}", []string{`revocation.url: "crl.example.com": must begin with http://`}},
		{"lists of no host", configHead + "revocation: {url: 'http://:8080'}", []string{`revocation.url: "http://:8080": must be http://HOST or http://HOST:PORT`}},
		{"lists in a folder", configHead + "revocation: {url: 'http://a.example/lists'}", []string{`revocation.url: "http://a.example/lists": must be http://HOST`}},
		{"lists by a query", configHead + "revocation: {url: 'http://a.example?'}", []string{"must be http://HOST"}},
		{"lists for a user", configHead + "revocation: {url: 'http://me@a.example'}", []string{"must be http://HOST"}},
		{"lists of a host that is not ASCII", configHead + "revocation: {url: 'http://ä.example'}", []string{"must be http://HOST"}},
		{"short lives that are negative", configHead + "revocation: {shortLived: -1h}", []string{"revocation.shortLived: -1h0m0s is negative"}},
		{"lists at the address of the API", configHead + "revocation: {listen: '127.0.0.1:6443'}", []string{"revocation.listen: is the address of serving.listen"}},
		{"lists at the address of roots", configHead + "revocation: {listen: ':80'}\nacmeServer: {rootsListen: ':80'}", []string{"revocation.listen: is the address of acmeServer.rootsListen"}},
		{"nobody to work", configHead + "signing: {concurrency: 0}", []string{"signing.concurrency"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cfg, err := load(t, tc.text)
			if err == nil {
				t.Fatalf("accepted as %+v", cfg)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
	if _, err := server.LoadConfig(filepath.Join(t.TempDir(), "nowhere.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
