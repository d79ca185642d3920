package program

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli"
	"github.com/certplane/certplane/internal/client/console"
	"github.com/certplane/certplane/internal/pki"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// stockVerb is how a verb is tried on an API server with only default APIs.
type stockVerb struct {
	args string
	// says is a part of what the verb writes; code its exit code.
	says string
	code int
	// without is why the verb is not tried: it calls no API server.
	without string
}

const (
	local  = "it works with files"
	serves = "it serves, and is no client"
)

// stockVerbs has each verb. NAME is replaced by the name of a new request, DIR by a folder with a policy.
var stockVerbs = map[string][]stockVerb{
	"acme allow":                    {{args: "-n default certbot --endpoint corp", says: "has no AcmeEndpoints", code: 1}},
	"acme approve":                  {{args: "account", says: "has no AcmeEndpoints", code: 1}},
	"acme check":                    {{args: "issuer/le", says: "does not serve issuers.cert-manager.io", code: 1}},
	"acme credentials":              {{args: "key", says: "has no AcmeEndpoints", code: 1}},
	"acme endpoints":                {{says: "has no AcmeEndpoints", code: 1}},
	"acme revoke":                   {{args: "account", says: "has no AcmeEndpoints", code: 1}},
	"acme thumbprint":               {{args: "issuer/le", says: "does not serve issuers.cert-manager.io", code: 1}},
	"acme trust":                    {{without: "it reaches an ACME server, which is not an API server"}},
	"acmesolver":                    {{without: serves}},
	"adopt":                         {{args: "cert-manager", says: "cert-manager is not in this cluster", code: 2}},
	"agent":                         {{without: "it needs PodCertificateRequests, and says so"}},
	"agent status":                  {{without: local}},
	"approve":                       {{args: "NAME", says: "Approved CertificateSigningRequest NAME"}, {args: "-i", says: "No request waits for your decision."}},
	"backup keygen":                 {{without: local}},
	"backup restore":                {{without: local}},
	"backup save":                   {{without: local}},
	"backup verify":                 {{without: local}},
	"certificates":                  {{says: "has no inventory", code: 1}},
	"check":                         {{says: " ok"}},
	"config check":                  {{without: local}},
	"config print-defaults":         {{without: local}},
	"console":                       {{without: "its pages are opened by TestPagesOnStock"}},
	"controllers":                   {{without: serves}},
	"crl":                           {{args: "example.com/web", says: "revocationlists", code: 1}},
	"crl sign":                      {{args: "--ca DIR/ca.crt --key DIR/ca.key", says: "ca.crt", code: 1}},
	"decisions":                     {{says: "has no inventory", code: 1}},
	"deny":                          {{args: "NAME", says: "Denied CertificateSigningRequest NAME"}},
	"encryption rotate":             {{without: local}},
	"explain acmeaccount":           {{args: "a", says: "the server has no acmeaccounts", code: 1}},
	"explain acmeendpoint":          {{args: "a", says: "the server has no acmeendpoints", code: 1}},
	"explain acmeexternalkey":       {{args: "a", says: "the server has no acmeexternalkeys", code: 1}},
	"explain acmeorder":             {{args: "a", says: "the server has no acmeorders", code: 1}},
	"explain certificate":           {{args: "a", says: "the server has no certificates", code: 1}},
	"explain certificaterequest":    {{args: "a", says: "the server has no certificaterequests", code: 1}},
	"explain challenge":             {{args: "a", says: "the server has no challenges", code: 1}},
	"explain csr":                   {{args: "NAME", says: "NAME waits for a person"}},
	"explain issuedcertificate":     {{args: "a", says: "the server has no issuedcertificates", code: 1}},
	"explain order":                 {{args: "a", says: "the server has no orders", code: 1}},
	"explain podcertificaterequest": {{args: "a", says: "the server has no podcertificaterequests", code: 1}},
	"explain revocation":            {{args: "a", says: "the server has no revocations", code: 1}},
	"explain signer":                {{args: "web", says: "the server has no signers", code: 1}, {args: "kubernetes.io/kube-apiserver-client", says: "kubernetes.io/kube-apiserver-client"}},
	"grant approve":                 {{args: "--signer example.com/web --user ann", says: "ann"}},
	"grant attest":                  {{args: "--signer example.com/web --user ann", says: "ann"}},
	"grant autoapprove":             {{args: "--endpoint corp --user ann", says: "ann"}},
	"grant override":                {{args: "--policy web --user ann", says: "ann"}},
	"grant preauthorize":            {{args: "--endpoint corp --user ann", says: "ann"}},
	"grant request":                 {{args: "--signer example.com/web --user ann", says: "ann"}},
	"grant revoke":                  {{args: "--signer example.com/web --user ann", says: "ann"}},
	"grant sign":                    {{args: "--signer example.com/web --user ann", says: "ann"}},
	"grant use":                     {{args: "--policy web --user ann", says: "ann"}},
	"host add":                      {{args: "edge-1 --dns edge-1.example.com", says: "has no Signers", code: 1}},
	"host remove":                   {{args: "edge-1", says: "edge-1"}},
	"hosts":                         {{says: "No hosts of agents found"}},
	"inspect secret":                {{args: "none", says: "found no Secret named none", code: 1}},
	"kubectl":                       {{without: "it is kubectl"}},
	"man":                           {{without: local}},
	"manifests":                     {{without: local}},
	"pki export":                    {{without: local}},
	"pki import":                    {{without: local}},
	"policy check":                  {{without: local}},
	"policy import":                 {{without: local}},
	"policy lint":                   {{without: local}},
	"policy promote":                {{args: "web", says: "does not serve certificatepolicies.certplane.dev", code: 2}},
	"policy replay":                 {{args: "--stored --new DIR/policy.yaml", says: "does not serve certificatepolicies.certplane.dev", code: 2}},
	"policy status":                 {{says: "does not serve certificatepolicies.certplane.dev", code: 2}},
	"policy test":                   {{without: local}},
	"policy votes":                  {{args: "csr/NAME", says: "NAME"}},
	"renew":                         {{args: "web", says: "cert-manager.io", code: 1}},
	"request":                       {{args: "--signer example.com/web --cn web --out DIR/web --wait 0", says: "created for signer example.com/web"}},
	"requests":                      {{says: "NAME"}, {args: "--all -o wide", says: "NAME"}},
	"revocation resume":             {{args: "--nothing", says: "not on hold"}},
	"revoke":                        {{args: "web.example.com --reason Superseded --wait 0", says: "has no inventory", code: 1}},
	"serve":                         {{without: serves}},
	"signer create":                 {{args: "web --dns-suffix corp.example", says: "has no Signers", code: 1}},
	"signer list":                   {{says: "has no Signers", code: 1}},
	"status certificate":            {{args: "web", says: "cert-manager.io", code: 1}},
	"token create":                  {{says: "."}},
	"token delete":                  {{args: "abcdef", says: "abcdef", code: 1}},
	"token list":                    {{says: "DESCRIPTION"}},
	"trust":                         {{args: "example.com/web", says: "has no ClusterTrustBundles", code: 1}},
	"user create":                   {{args: "ann --out DIR/ann", says: "ann"}},
	"version":                       {{without: local}},
	"who-can approve":               {{args: "example.com/web", says: "system:masters"}},
	"who-can attest":                {{args: "example.com/web", says: ""}},
	"who-can autoapprove":           {{args: "corp", says: ""}},
	"who-can get":                   {{args: "web.example.com", says: "web.example.com"}},
	"who-can override":              {{args: "web", says: ""}},
	"who-can preauthorize":          {{args: "corp", says: ""}},
	"who-can request":               {{args: "example.com/web", says: ""}},
	"who-can revoke":                {{args: "example.com/web", says: "system:masters"}},
	"who-can sign":                  {{args: "example.com/web", says: ""}},
	"who-can use":                   {{args: "web", says: ""}},
}

// Every verb works with an API server that serves nothing but the default APIs, or names
// the kind that it lacks.
func TestVerbsOnStock(t *testing.T) {
	server := shared.Start(t)
	stock := server.Stock(t)
	kubeconfig := writeKubeconfig(t, stock)
	admin := apitest.Client(t, stock)
	var verbs []string
	walk(newCommand(genericiooptions.NewTestIOStreamsDiscard()), "", func(path string) { verbs = append(verbs, path) })
	for path := range stockVerbs {
		if !slices.Contains(verbs, path) {
			t.Errorf("there is no verb %q", path)
		}
	}
	for _, path := range verbs {
		tries, known := stockVerbs[path]
		if !known {
			t.Errorf("how does %q work with an API server that serves only the default APIs?", path)
			continue
		}
		for _, try := range tries {
			if try.without != "" {
				continue
			}
			name := strings.ReplaceAll(path, " ", "-")
			t.Run(name+" "+try.args, func(t *testing.T) {
				if strings.Contains(try.args+try.says, "NAME") {
					apitest.Create(t, admin, apitest.NewCSR(t, name, "example.com/web", pki.Subject{CommonName: "web"}, apitest.NewKey(t)))
					defer admin.CertificatesV1().CertificateSigningRequests().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
				}
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
					t.Fatal(err)
				}
				fill := strings.NewReplacer("NAME", name, "DIR", dir)
				args := append(strings.Fields(path), strings.Fields(fill.Replace(try.args))...)
				code, said := certplane(t, append(args, "--kubeconfig", kubeconfig)...)
				if code != try.code || !strings.Contains(said, fill.Replace(try.says)) {
					t.Errorf("exit code %d, want %d, with %q:\n%s", code, try.code, fill.Replace(try.says), said)
				}
				if strings.Contains(said, notServed) {
					t.Errorf("it does not say what is not served:\n%s", said)
				}
			})
		}
	}
}

const policy = `apiVersion: certplane.dev/v1alpha1
kind: CertificatePolicy
metadata: {name: web}
spec:
  effect: Allow
  match: {signers: [example.com/web]}
  certificate: {names: {dns: {zones: [example.com]}}}
`

// notServed is how clients word that a kind is not served.
const notServed = "the server could not find the requested resource"

// walk calls f for the path of each verb.
func walk(cmd *cobra.Command, path string, f func(path string)) {
	for _, sub := range cmd.Commands() {
		at := strings.TrimSpace(path + " " + sub.Name())
		if sub.Runnable() {
			f(at)
		}
		walk(sub, at, f)
	}
}

// certplane runs a command line. It returns the exit code and all that was written.
func certplane(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	root := newCommand(streams)
	root.SetArgs(args)
	root.SetOut(out)
	code := cli.Execute(ctx, root, errOut)
	return code, out.String() + errOut.String()
}

// writeKubeconfig writes the kubeconfig of a client to a file.
func writeKubeconfig(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["stock"] = &clientcmdapi.Cluster{Server: cfg.Host}
	config.Contexts["stock"] = &clientcmdapi.Context{Cluster: "stock"}
	config.CurrentContext = "stock"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

var navigation = regexp.MustCompile(`href="(/console/[a-z]+)"`)

// Every page of the console works with such a server.
func TestPagesOnStock(t *testing.T) {
	server := shared.Start(t)
	stock := server.Stock(t)
	admin := apitest.Client(t, stock)
	apitest.Create(t, admin, apitest.NewCSR(t, "on-a-page", "example.com/web", pki.Subject{CommonName: "web"}, apitest.NewKey(t)))
	handler := console.New(console.Config{
		Base: "/console/", User: func(*http.Request) (console.Identity, error) { return console.Identity{API: stock, Name: "admin"}, nil },
		Kubectl: []string{"certplane", "kubectl"}, Now: time.Now,
	})
	page := func(path string) string {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Code != http.StatusOK {
			t.Errorf("%s: %d\n%s", path, answer.Code, body)
		}
		if strings.Contains(string(body), notServed) {
			t.Errorf("%s does not say what is not served:\n%s", path, body)
		}
		return string(body)
	}
	start := page("/console/requests")
	if !strings.Contains(start, "on-a-page") {
		t.Errorf("the inbox lacks the request:\n%s", start)
	}
	pages := navigation.FindAllStringSubmatch(start, -1)
	if len(pages) < 8 {
		t.Fatalf("the navigation has %d pages:\n%s", len(pages), start)
	}
	for _, found := range pages {
		page(found[1])
	}
	page("/console/object/certificatesigningrequests.certificates.k8s.io/-/on-a-page")
}
