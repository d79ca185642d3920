package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// To revoke the certificates of a leaked key, only its digest is sent, whatever the file has.
func TestRevokeSendsNoKey(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	key := apitest.NewKey(t)
	csr := apitest.Create(t, admin, apitest.NewCSR(t, "leaked", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "leaked"}, key))
	apitest.Issued(t, admin, apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved))
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards sent
	var sent bytes.Buffer
	recorder := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		body, _ := io.ReadAll(r.In.Body)
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&sent, r.Out.Method, r.Out.URL, r.Out.Header, string(body))
	}})
	defer recorder.Close()

	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := file("kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}],
contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], current-context: c}`, recorder.URL))
	got := certplane(t, "revoke", "--kubeconfig", kubeconfig, "--key", file("leaked.key", string(keyPEM)), "--reason", "KeyCompromise", "--yes", "1", "--wait", "0")
	if got.code != 0 || !strings.Contains(got.stdout, "revoked CN=leaked ") {
		t.Fatalf("%+v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	text := sent.String()
	if !strings.Contains(text, pki.KeyFingerprint(key.Public())) || !strings.Contains(text, http.MethodPost+" ") {
		t.Errorf("the digest is not sent:\n%s", text)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(keyPEM)), "\n") {
		if strings.Contains(text, strings.TrimRight(line, "=")) {
			t.Errorf("it sends %q", line)
		}
	}
}
