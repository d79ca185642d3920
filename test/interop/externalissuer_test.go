package interop

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const externalIssuer = "../../examples/external-issuer"

// The example of an external issuer serves a real kube-apiserver, with the rights of its
// manifests: certplane's controllers approve and issue there, and its webhook guards the
// approval.
func TestExternalIssuerInCluster(t *testing.T) {
	c := startCluster(t, allOfCertManager)
	address := freeAddress(t)
	c.controllers(t, allOfCertManager, "--webhook-bind-address", address)
	eventually(t, "the API knows whom to trust", func() bool { return len(c.bundles(t)) == 2 })
	c.reachWebhook(t, address)
	eventually(t, "the certificate has the address", func() bool { return serves(t, address).VerifyHostname("127.0.0.1") == nil })

	program := filepath.Join(c.dir, "external-issuer")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", externalIssuer, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the issuer: %v\n%s", err, out)
	}
	kubectl := func(input string, args ...string) string {
		return c.certplane(t, input, append([]string{"kubectl", "--kubeconfig", c.admin}, args...)...)
	}
	rights, err := os.ReadFile(filepath.Join(externalIssuer, "deploy/rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// This follows its comment about "certplane controllers".
	kubectl(strings.ReplaceAll(string(rights), "namespace: kube-system", "namespace: certplane-system"), "apply", "-f", "-")
	kubectl("", "apply", "-f", filepath.Join(externalIssuer, "deploy/crds"))
	token := strings.TrimSpace(kubectl("", "create", "token", "-n", "sample-issuer", "sample-issuer"))
	issuer := run(t, c.dir, program, "--kubeconfig", c.kubeconfig(t, "sample-issuer", map[string]any{"token": token}))

	pki := filepath.Join(c.dir, "data/pki")
	kubectl("", "create", "secret", "tls", "sample-ca", "--cert", filepath.Join(pki, "client-ca.crt"), "--key", filepath.Join(pki, "client-ca.key"))
	kubectl("", "apply", "-f", filepath.Join(externalIssuer, "deploy/sample.yaml"))

	t.Run("certificate", func(t *testing.T) {
		kubectl("", "wait", "certificate/web", "--for=condition=Ready", "--timeout=1m")
		data, err := base64.StdEncoding.DecodeString(kubectl("", "get", "secret", "web-tls", "-o", `jsonpath={.data.tls\.crt}`))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		if block == nil {
			t.Fatalf("no certificate in %q", data)
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err != nil || len(cert.DNSNames) != 1 || cert.DNSNames[0] != "web.example.com" {
			t.Errorf("issued %v, %v", cert, err)
		}
	})
	t.Run("signing request", func(t *testing.T) {
		c.approve(t, c.submit(t, call{body: manifest(t, "--signer", "sampleissuers.sample-issuer.example.com/default.sample",
			"--cn", "api.example.com", "--name", "api")}))
		if leaf := c.issued(t, "api"); leaf.Subject.CommonName != "api.example.com" {
			t.Errorf("issued for %s", leaf.Subject)
		}
	})
	t.Run("refused", func(t *testing.T) {
		c.approve(t, c.submit(t, call{body: manifest(t, "--signer", "sampleissuers.sample-issuer.example.com/default.sample",
			"--cn", "api.example.org", "--name", "other")}))
		kubectl("", "wait", "csr/other", "--for=condition=Failed", "--timeout=1m")
	})
	if said := issuer.output.tail(1 << 20); strings.Contains(said, "forbidden") {
		t.Errorf("a right is missing:\n%s", said)
	}
}
