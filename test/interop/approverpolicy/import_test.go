package approverpolicy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	policyimport "github.com/certplane/certplane/internal/client/cli/policy/convert"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// importCases is how many random requests each imported example decides about.
const importCases = 300

// The examples of approver-policy become policies of certplane that decide the
// same, as "certplane policy import --verify" finds.
func TestImportOfExamples(t *testing.T) {
	requests := requestFiles(t)
	tests := []struct {
		example string
		lost    string // the comment about what has no equal
	}{
		{example: "allow-all.yaml"},
		{example: "default-deny-all.yaml"},
		{example: "example.com.yaml"},
		{example: "all-options.yaml", lost: "# no equivalent: spec.plugins: certplane has no plugins: rego"},
		{example: "plugin.yaml", lost: "# no equivalent: spec.plugins: certplane has no plugins: rego"},
	}
	for _, tc := range tests {
		t.Run(tc.example, func(t *testing.T) {
			text := must(os.ReadFile(filepath.Join(source(t), "docs/examples", tc.example)))
			// Without quotes, the rule is a YAML tag, and the example cannot be read.
			text = bytes.Replace(text, []byte("rule: !self.contains('*')"), []byte(`rule: "!self.contains('*')"`), 1)
			file := filepath.Join(t.TempDir(), tc.example)
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			policies, report, err := verifyImport(t, file, requests)
			if tc.lost == "" && err != nil || tc.lost != "" && !answer.IsNo(err) || !strings.Contains(policies, tc.lost) {
				t.Errorf("error %v\n%s\n%s", err, report, policies)
			}
			if want := fmt.Sprintf("%d requests: 0 decided differently, 0 unknown", importCases); !strings.Contains(report, want) {
				t.Errorf("want %q in\n%s\n%s", want, report, policies)
			}
		})
	}
}

// requestFiles writes random CertificateRequests, including some for the examples'
// issuers, and returns their folder.
func requestFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i, g := range generators(t) {
		if i == importCases {
			break
		}
		cr := g.request()
		cr.Spec.Request = g.ordinary()
		cr.APIVersion, cr.Kind, cr.Name = "cert-manager.io/v1", "CertificateRequest", fmt.Sprintf("r-%d", i)
		if g.chance(70) {
			cr.Spec.IssuerRef.Name = pick(g, []string{"my-ca", "my-ca-1", "letsencrypt-prod", "letsencrypt-staging"})
			cr.Spec.IssuerRef.Kind, cr.Spec.IssuerRef.Group = pick(g, []string{"Issuer", "ClusterIssuer"}), "cert-manager.io"
		}
		if err := os.WriteFile(filepath.Join(dir, cr.Name+".yaml"), must(yaml.Marshal(cr)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ordinary returns what a client asks for that has nothing which certplane refuses
// under any policy, because programs read it differently.
func (g generator) ordinary() []byte {
	template := &x509.CertificateRequest{DNSNames: some(g, dnsNames, 2), EmailAddresses: some(g, emails, 1)}
	if g.chance(40) {
		template.Subject.CommonName = pick(g, dnsNames)
	}
	template.Subject.Organization, template.Subject.Country = some(g, []string{"Shop", "Corp"}, 1), some(g, []string{"DE"}, 1)
	if g.chance(20) {
		template.URIs = []*url.URL{must(url.Parse(pick(g, []string{"spiffe://corp/ns/shop/sa/web", "spiffe://example.org/ns/shop/sa/web"})))}
	}
	if g.chance(20) {
		template.IPAddresses = []net.IP{net.IPv4(10, 1, 2, 3)}
	}
	der := must(x509.CreateCertificateRequest(rand.Reader, template, pick(g, keys()[1:])))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func verifyImport(t *testing.T, file, requests string) (policies, report string, err error) {
	t.Helper()
	var namespacesText strings.Builder
	for _, name := range namespaces {
		fmt.Fprintf(&namespacesText, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\n", name)
	}
	store := must(facts.NewStore(must(manifest.Parse("facts", []byte(namespacesText.String())))))
	var out, errOut bytes.Buffer
	err = policyimport.Run(t.Context(), policyimport.Config{
		Files: []string{file}, Verify: true, Requests: []string{requests}, Now: time.Now(), Stdout: &out, Stderr: &errOut,
		Facts: &facts.Finder{Objects: store, Access: func(context.Context, request.Requester, certpolicy.Access) (bool, error) { return true, nil }},
	})
	return out.String(), errOut.String(), err
}
