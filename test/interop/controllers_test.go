package interop

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// certplane's controllers serve a real kube-apiserver with the rights that
// their manifests give them.
func TestControllersInCluster(t *testing.T) {
	c := startCluster(t)
	replica := c.controllers(t)

	t.Run("client certificate", func(t *testing.T) {
		object := c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "alice", "--name", "alice")})
		c.approve(t, object)
		leaf := c.issued(t, "alice")
		if leaf.Subject.CommonName != "alice" {
			t.Errorf("issued for %s", leaf.Subject)
		}
	})
	t.Run("durations", func(t *testing.T) { c.testDurations(t) })
	t.Run("metrics", func(t *testing.T) { c.testMetrics(t, replica) })
}

// testDurations: what a client asks for is what it gets, and the five minutes
// that the certificate began before are added to all but long ones.
func (c *cluster) testDurations(t *testing.T) {
	for asked, want := range map[string]time.Duration{"10m": 15 * time.Minute, "2h": 2*time.Hour + 5*time.Minute, "10h": 10 * time.Hour} {
		name := "duration-" + asked
		c.approve(t, c.submit(t, call{body: manifest(t, "--signer", "kubernetes.io/kube-apiserver-client", "--cn", "bob", "--name", name, "--expires", asked)}))
		leaf := c.issued(t, name)
		if got := leaf.NotAfter.Sub(leaf.NotBefore); got != want {
			t.Errorf("asked for %s: got %s, want %s", asked, got, want)
		}
	}
}

// issued waits for a request's certificate.
func (c *cluster) issued(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	var chain string
	eventually(t, name+" is issued", func() bool { chain = issued(t, c.apiServer, name); return chain != "" })
	block, _ := pem.Decode([]byte(chain))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

// testMetrics: only who may see them sees them.
func (c *cluster) testMetrics(t *testing.T, r *replica) {
	c.certplane(t, "", "kubectl", "--kubeconfig", c.admin, "-n", "certplane-system", "create", "serviceaccount", "monitor")
	c.bind(t, "system:monitoring", "system:serviceaccount:certplane-system:monitor")
	for _, tc := range []struct {
		reason, token string
		want          int
	}{
		{"nobody", "", http.StatusUnauthorized},
		{"somebody without rights", c.token(t, "csr-signer"), http.StatusForbidden},
		{"a monitor", c.token(t, "monitor"), http.StatusOK},
	} {
		code, text := r.scrape(t, tc.token)
		if code != tc.want {
			t.Errorf("%s: %d, want %d", tc.reason, code, tc.want)
		}
		if tc.want == http.StatusOK && !strings.Contains(text, `certplane_signing_issued_total{signer="kubernetes.io/kube-apiserver-client"}`) {
			t.Errorf("no certificates in the metrics:\n%s", text)
		}
	}
}

func (r *replica) scrape(t *testing.T, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
