package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A user of cmctl or kubectl gets a hint what to type here.
func TestOtherProgramsVerbs(t *testing.T) {
	tests := []struct{ line, want string }{
		{"check api --wait 2m", "certplane kubectl get --raw /readyz"},
		{"create certificaterequest web --from-certificate-file f --fetch-certificate", "certplane request --signer issuers.cert-manager.io/"},
		{"upgrade migrate-api-version", "No migration is needed"},
		{"convert -f old.yaml", "'cmctl convert'"},
		{"x install", "certplane manifests"},
		{"status certificaet web -n shop", "Did you mean this?\n\tcertificate"},
		{"inspect secert web -o json", "Did you mean this?\n\tsecret"},
		{"approve certificate/web-1", "want NAME, csr/NAME or certificaterequest/NAME"},
		{"deny csr/", "want NAME, csr/NAME or certificaterequest/NAME"},
		{"get csr", "certplane kubectl get ..."},
		{"describe csr/web -o yaml", "certplane kubectl describe ..."},
		{"logs -f certplane", "certplane runs no pods"},
		{"renew certificate/web", "as in 'certplane renew web'"},
		{"status certificates cert/web", "as in 'certplane status certificate web'"},
		{"inspect secrets secret/web", "as in 'certplane inspect secret web'"},
		{"approve", "name the requests"},
		{"status certificate web -o wide", `--output is "wide", want json or yaml`},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			got := certplane(t, strings.Fields(tt.line)...)
			if got.code != 2 || !strings.Contains(got.stderr, tt.want) || strings.Contains(got.stdout+got.stderr, "Usage:") {
				t.Errorf("exit code %d, stderr %q, want %q", got.code, got.stderr, tt.want)
			}
		})
	}
	if got := certplane(t, "nosuch"); got.stderr != "Error: unknown command \"nosuch\" for \"certplane\"\nSee 'certplane --help'.\n" {
		t.Errorf("an unknown verb: %q", got.stderr)
	}
}

// Every verb says what to do when its server cannot be reached.
func TestCertificateVerbsWithoutServer(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Port 1 is reserved: nothing listens there.
	const away = `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], current-context: c}`
	kubeconfigs := []struct{ path, want string }{
		{file("away", away), "Is the server running? 'certplane serve' starts one."},
		{file("broken", "garbage: ["), "name another with --kubeconfig"},
		{filepath.Join(dir, "missing"), "name another with --kubeconfig"},
	}
	for _, verb := range []string{"approve web-1", "deny web-1", "renew web", "renew --all -A", "renew -l app=web", "status certificate web", "inspect secret web"} {
		for _, kubeconfig := range kubeconfigs {
			got := certplane(t, append(strings.Fields(verb), "--kubeconfig", kubeconfig.path)...)
			if got.code != 1 || !strings.Contains(got.stderr, kubeconfig.want) {
				t.Errorf("%s with %s: exit code %d, stderr %q, want %q", verb, filepath.Base(kubeconfig.path), got.code, got.stderr, kubeconfig.want)
			}
		}
	}
	got := certplane(t, "approve", "web-1", "--kubeconfig", kubeconfigs[0].path, "--context", "nosuch")
	if got.code != 1 || !strings.Contains(got.stderr, "certplane kubectl config get-contexts") {
		t.Errorf("a context that does not exist: exit code %d, stderr %q", got.code, got.stderr)
	}
}
