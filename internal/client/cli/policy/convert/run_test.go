package convert

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/facts"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// writeRequest writes a CertificateRequest for names into a folder.
func writeRequest(t *testing.T, dir, name string, template x509.CertificateRequest, change func(*cmv1.CertificateRequest)) {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cert-manager.io/v1", Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: cmv1.CertificateRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), Username: "system:serviceaccount:shop:web",
			Usages: []cmv1.KeyUsage{cmv1.UsageDigitalSignature}, IssuerRef: cmmeta.IssuerReference{Name: "own", Kind: "Issuer"},
		},
	}
	if change != nil {
		change(cr)
	}
	data, err := yaml.Marshal(cr)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".yaml"), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func requests(t *testing.T) string {
	dir := t.TempDir()
	for name, dns := range map[string][]string{
		"exact": {"shop.example.com"}, "below": {"www.shop.example.com"}, "deep": {"a.b.shop.example.com"}, "wild": {"*.shop.example.com"},
		"foreign": {"www.example.org"}, "lookalike": {"badshop.example.com"}, "none": nil, "own": {"web.shop.svc"},
	} {
		writeRequest(t, dir, name, x509.CertificateRequest{DNSNames: dns}, nil)
	}
	writeRequest(t, dir, "ip", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(10, 1, 2, 3)}}, nil)
	writeRequest(t, dir, "mail", x509.CertificateRequest{EmailAddresses: []string{"a@example.com"}}, nil)
	writeRequest(t, dir, "long", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) {
		cr.Spec.Duration = &metav1.Duration{Duration: 2000 * time.Hour}
	})
	writeRequest(t, dir, "short", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) {
		cr.Spec.Duration = &metav1.Duration{Duration: 10 * time.Hour}
	})
	writeRequest(t, dir, "ca", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) { cr.Spec.IsCA = true })
	writeRequest(t, dir, "client", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) {
		cr.Spec.Usages = append(cr.Spec.Usages, cmv1.UsageClientAuth)
	})
	writeRequest(t, dir, "other-issuer", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Name = "an.own" })
	writeRequest(t, dir, "cluster-issuer", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) { cr.Spec.IssuerRef.Kind = "ClusterIssuer" })
	writeRequest(t, dir, "elsewhere", x509.CertificateRequest{DNSNames: []string{"shop.example.com"}}, func(cr *cmv1.CertificateRequest) { cr.Namespace = "other" })
	return dir
}

const header = "apiVersion: policy.cert-manager.io/v1alpha1\nkind: CertificateRequestPolicy\nmetadata: {name: p}\nspec:\n"

// run converts a policy, and verifies it with all requests.
func run(t *testing.T, requests, spec string, mayUse bool) (policies, report string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crp.yaml")
	if err := os.WriteFile(file, []byte(header+spec), 0o600); err != nil {
		t.Fatal(err)
	}
	documents, err := manifest.Parse("facts", []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: web}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := facts.NewStore(documents)
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	err = Run(t.Context(), Config{
		Files: []string{file}, Verify: true, Requests: []string{requests}, Now: time.Now(), Stdout: &out, Stderr: &errOut,
		Facts: &facts.Finder{Objects: store, Access: func(context.Context, request.Requester, certpolicy.Access) (bool, error) { return mayUse, nil }},
	})
	return out.String(), errOut.String(), err
}

// The same requests are approved, denied and left.
func TestSameDecisions(t *testing.T) {
	requests := requests(t)
	const any = "  selector: {issuerRef: {}}\n"
	const usages = "    usages: [digital signature]\n"
	tests := []struct{ reason, spec string }{
		{"wildcards", "  allowed:\n    dnsNames: {values: [\"*.shop.example.com\", shop.example.com]}\n" + usages + any},
		{"no wildcards", "  allowed:\n    dnsNames: {values: [\"w*.example.com\"]}\n" + usages + any},
		{"required", "  allowed:\n    dnsNames: {values: [\"*\"], required: true}\n" + usages + any},
		{"a rule", "  allowed:\n    dnsNames: {validations: [{rule: \"self.endsWith(cr.namespace + '.svc')\"}]}\n" + usages + any},
		{"a rule about the requester", "  allowed:\n    dnsNames: {validations: [{rule: \"isServiceAccount(cr.username) && self.startsWith(serviceAccount(cr.username).getName())\", message: \"not yours\"}]}\n" + usages + any},
		{"addresses", "  allowed:\n    ipAddresses: {values: [\"10.*\"]}\n" + usages + any},
		{"e-mail", "  allowed:\n    emailAddresses: {values: [\"*@example.com\"]}\n" + usages + any},
		{"durations", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  constraints: {minDuration: 1h, maxDuration: 100h}\n" + any},
		{"keys", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  constraints: {privateKey: {algorithm: ECDSA, minSize: 384}}\n" + any},
		{"RSA only", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  constraints: {privateKey: {algorithm: RSA, minSize: 2048}}\n" + any},
		{"CAs", "  allowed:\n    dnsNames: {values: [\"*\"]}\n    isCA: true\n" + usages + any},
		{"an issuer", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  selector: {issuerRef: {name: own, kind: Issuer, group: cert-manager.io}}\n"},
		{"issuers by pattern", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  selector: {issuerRef: {name: \"*own\", kind: \"*Issuer\", group: \"*.io\"}}\n"},
		{"a namespace", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  selector: {namespace: {matchNames: [\"sh*\"]}}\n"},
		{"labels", "  allowed:\n    dnsNames: {values: [\"*\"]}\n" + usages + "  selector: {namespace: {matchLabels: {team: web}}}\n"},
		{"deny by default", "  allowed:\n    dnsNames: {values: [], required: true}\n" + any},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			policies, report, err := run(t, requests, tc.spec, true)
			if err != nil || !strings.HasPrefix(report, "17 requests: 0 decided differently") {
				t.Errorf("error %v\n%s\n%s", err, report, policies)
			}
		})
	}
	_, report, err := run(t, requests, tests[0].spec, false)
	if err != nil || !strings.HasPrefix(report, "17 requests: 0 decided differently") {
		t.Errorf("nobody may use it: error %v\n%s", err, report)
	}
}

func TestLost(t *testing.T) {
	requests := requests(t)
	tests := []struct{ reason, spec, comment, report string }{
		{"plugins", "  plugins: {rego: {}}\n  selector: {issuerRef: {}}\n", "# no equivalent: spec.plugins: certplane has no plugins: rego\n# not converted", "17 requests: 0"},
		{"no usages", "  allowed:\n    dnsNames: {values: [\"*\"]}\n  selector: {issuerRef: {}}\n", "# no equivalent: spec.allowed.usages: ", "Deny→Approve  shop/exact"},
		{"an expression", "  allowed:\n    usages: [digital signature]\n    dnsNames: {validations: [{rule: \"serviceAccount(self).getName() == 'a'\"}]}\n  selector: {issuerRef: {}}\n", `"serviceAccount(" cannot be converted; the rule below permits nothing`, "17 requests: 0"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			policies, report, err := run(t, requests, tc.spec, true)
			if !answer.IsNo(err) || !strings.Contains(policies, tc.comment) || !strings.Contains(report, tc.report) {
				t.Errorf("error %v\n%s\n%s", err, report, policies)
			}
		})
	}
}
