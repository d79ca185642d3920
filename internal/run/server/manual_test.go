package server_test

import (
	"crypto"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/kms/pkg/service"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const header = "apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration\n"

// Every example of the manual works as it is printed: the files that it names
// are those that it shows, or keys and certificates.
func TestExamplesOfTheManual(t *testing.T) {
	m := newManual(t)
	for _, example := range m.configurations {
		name, _, _ := strings.Cut(example, ":")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "server.yaml")
			writeFile(t, file, []byte(header+example))
			cfg, err := server.LoadConfig(file)
			if err != nil {
				t.Fatalf("%v\n%s", err, example)
			}
			if len(cfg.Etcd.Servers) > 0 {
				return // there is no such cluster here
			}
			apitest.Start(t, func(c *server.Config) {
				cfg.DataDir, cfg.Serving.Listen = c.DataDir, c.Serving.Listen
				*c = cfg
			})
		})
	}
}

// manual are the pages about settings with a folder for their files.
type manual struct {
	dir            string
	configurations []string
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	fileName  = regexp.MustCompile(`^# /etc/certplane/(\S+)\n`)
)

func newManual(t *testing.T) manual {
	t.Helper()
	var text []byte
	for _, page := range []string{"operate.md", "logins.md", "several-servers.md"} {
		more, err := os.ReadFile(filepath.Join("../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, more...)
	}
	m := manual{dir: t.TempDir()}
	here := strings.NewReplacer("/etc/certplane/", m.dir+"/", "/var/log/certplane/", m.dir+"/", "/run/certplane/", m.dir+"/")
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		example := block[1]
		switch name := fileName.FindStringSubmatch(example); {
		case name != nil:
			writeFile(t, filepath.Join(m.dir, name[1]), []byte(here.Replace(example)))
		case !strings.HasPrefix(example, "apiVersion:"): // otherwise it is for kubectl
			m.configurations = append(m.configurations, here.Replace(example))
		}
	}
	if len(m.configurations) < 10 {
		t.Fatalf("the manual has %d examples of the configuration", len(m.configurations))
	}
	m.makeCertificates(t)
	m.serveKMS(t)
	return m
}

func (m manual) makeCertificates(t *testing.T) {
	t.Helper()
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "example", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf := apitest.NewKey(t)
	chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "certplane"}, leaf.Public(), pki.ClientUsages(), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"more-client-cas.crt", "front-proxy-ca.crt", "webhook-ca.crt"} {
		writeFile(t, filepath.Join(m.dir, name), pki.EncodeCertificates(root.Certificate()))
	}
	writeFile(t, filepath.Join(m.dir, "webhook-client.crt"), pki.EncodeCertificates(chain...))
	for name, key := range map[string]crypto.Signer{"webhook-client.key": leaf, "former.key": key} {
		encoded, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(m.dir, name), encoded)
	}
}

func (m manual) serveKMS(t *testing.T) {
	t.Helper()
	plugin := service.NewGRPCService(filepath.Join(m.dir, "kms.sock"), time.Second, xor{})
	go plugin.ListenAndServe()
	t.Cleanup(plugin.Close)
}
