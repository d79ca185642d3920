package authn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/pki"
)

// The content of a file is only checked when the file is read, and errors have
// the field that contains its name.
func TestFilesThatCannotBeUsed(t *testing.T) {
	tests := []struct {
		reason string
		change func(*Settings, string)
		want   string
	}{
		{"client CA", func(s *Settings, file string) { s.ClientCAFile = file }, "authentication.clientCAFile: "},
		{"configuration", func(s *Settings, file string) { s.ConfigFile = file }, "authentication.configFile: "},
		{"webhook", func(s *Settings, file string) { s.Webhook.Kubeconfig = file }, "authentication.webhook.kubeconfig: "},
		{"proxy CA", func(s *Settings, file string) { s.RequestHeader.CAFile = file }, "authentication.requestHeader.caFile: "},
		{"former keys", func(s *Settings, file string) { s.ServiceAccounts.FormerKeyFiles = []string{file} }, "authentication.serviceAccounts.formerKeyFiles[0]: "},
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("what"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		for _, file := range []string{garbage, filepath.Join(t.TempDir(), "missing")} {
			t.Run(tt.reason+" "+filepath.Base(file), func(t *testing.T) {
				settings := DefaultSettings()
				tt.change(&settings, file)
				_, err := New(newConfig(t, settings))
				if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("error is %v, want %q", err, tt.want)
				}
			})
		}
	}
}

func newConfig(t *testing.T, settings Settings) Config {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "clients", key, pki.DefaultRootLifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := dynamiccertificates.NewStaticCAContent("clients", pki.EncodeCertificates(root.Certificate()))
	if err != nil {
		t.Fatal(err)
	}
	return Config{Settings: settings, ClientCAs: []dynamiccertificates.CAContentProvider{ca}, ServiceAccountKey: key, Loopback: &rest.Config{Host: "https://localhost:1"}}
}
