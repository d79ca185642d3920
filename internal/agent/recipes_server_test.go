package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/agent"
	"github.com/certplane/certplane/internal/agent/hostcert"
	"github.com/certplane/certplane/internal/api/agenthost"
	"github.com/certplane/certplane/internal/apitest"
)

// The recipes of docs/hosts.md have the files, modes and commands that the page
// describes. Directory and owner are the test's, and so is systemctl.
func TestRecipes(t *testing.T) {
	s, ca := common.Start(t), newSigner(t)
	bundle := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "certplane.dev:agent-hosts:roots"}, Spec: certificatesv1.ClusterTrustBundleSpec{
		SignerName: "certplane.dev/agent-hosts", TrustBundle: encode(ca.root),
	}}
	if _, err := apitest.Client(t, s.Admin(t)).CertificatesV1().ClusterTrustBundles().Create(t.Context(), bundle, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		files map[string]os.FileMode
		names string
	}{
		"nginx":      {map[string]os.FileMode{"tls.crt": 0o644, "tls.key": 0o600}, "www.example.com,example.com"},
		"postgresql": {map[string]os.FileMode{"server.crt": 0o644, "server.key": 0o600, "ca.crt": 0o644}, "db.example.com"},
		"haproxy":    {map[string]os.FileMode{"site.pem": 0o600}, "*.example.com"},
	}
	found := 0
	for _, block := range examples(t, "hosts.md") {
		if !strings.Contains(block[1], "certificates:") {
			continue
		}
		found++
		recipe := recipeOf(t, block[1])
		command := recipe.AfterRefresh[0].Command
		program := command[len(command)-1]
		t.Run(program, func(t *testing.T) {
			testRecipe(t, newHost(t, s), ca, recipe, want[program].files, want[program].names)
		})
	}
	if found != len(want) {
		t.Errorf("the page has %d recipes, want %d", found, len(want))
	}
}

func recipeOf(t *testing.T, text string) hostcert.Certificate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := agent.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Certificates[0]
}

func testRecipe(t *testing.T, h *host, ca *signer, recipe hostcert.Certificate, files map[string]os.FileMode, names string) {
	dir, called := filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "called")
	command := strings.Join(recipe.AfterRefresh[0].Command[1:], " ")
	recipe.Directory, recipe.Owner, recipe.Namespace, recipe.ServiceAccount = dir, "", h.namespace, ""
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\necho \"$@\" >>"+called+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h.cfg.Certificates = []hostcert.Certificate{recipe}
	h.run()
	first := h.request()
	if got := first.Spec.UnverifiedUserAnnotations[agenthost.DNSNamesAnnotation]; got != names {
		t.Errorf("requested for %q, want %q", got, names)
	}
	chain := ca.issue(h, first)
	h.eventually("all files are there, as the page says", func() bool {
		for name, mode := range files {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode() != mode {
				return false
			}
		}
		return true
	})
	certificate := recipe.Files.Certificate + recipe.Files.Bundle
	if certificate == "" {
		certificate = "tls.crt"
	}
	if data, err := os.ReadFile(filepath.Join(dir, certificate)); err != nil || !strings.HasSuffix(string(data), chain) {
		t.Errorf("%s has not the certificate: %v", certificate, err)
	}
	told := func(times int) func() bool {
		return func() bool {
			data, err := os.ReadFile(called)
			return err == nil && string(data) == strings.Repeat(command+"\n", times)
		}
	}
	h.eventually("the program is told of the first files", told(1))
	h.clock.Step(23*time.Hour + 36*time.Minute)
	ca.issue(h, h.request(first.Name))
	h.eventually("the program is told of the next ones", told(2))
}
