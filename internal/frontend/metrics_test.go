package frontend_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/frontend"
)

// writePair writes a new certificate for host and its key by replacing the
// files, as tools do.
func writePair(t *testing.T, c frontend.MetricsConfig, host string) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{c.CertFile: cert, c.KeyFile: key} {
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func open(c frontend.MetricsConfig) ([]frontend.FrontEnd, error) {
	return frontend.Open(frontend.Process{Own: &rest.Config{Host: "https://127.0.0.1:1"}}, frontend.Config{Metrics: c})
}

// serveMetrics serves /metrics until the test ends.
func serveMetrics(t *testing.T, c frontend.MetricsConfig) {
	t.Helper()
	all, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- all[0].Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving metrics ended with %v", err)
		}
	})
}

// served returns the host that the certificate at an address is for, or "".
func served(address string) string {
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return ""
	}
	defer connection.Close()
	return strings.Join(connection.ConnectionState().PeerCertificates[0].DNSNames, " ")
}

// A new certificate is served without a restart.
func TestMetricsCertificateIsFollowed(t *testing.T) {
	dir := t.TempDir()
	c := frontend.MetricsConfig{BindAddress: apitest.FreeAddress(t), CertFile: filepath.Join(dir, "a.crt"), KeyFile: filepath.Join(dir, "b.key")}
	writePair(t, c, "first")
	serveMetrics(t, c)
	apitest.Eventually(t, "the certificate is served", func() bool { return served(c.BindAddress) == "first" })
	writePair(t, c, "second")
	apitest.Eventually(t, "the new certificate is served", func() bool { return served(c.BindAddress) == "second" })
}

// Without files, metrics are encrypted and need authorization.
func TestMetricsWithoutFiles(t *testing.T) {
	c := frontend.MetricsConfig{BindAddress: apitest.FreeAddress(t)}
	serveMetrics(t, c)
	apitest.Eventually(t, "a certificate is served", func() bool { return served(c.BindAddress) == "localhost" })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Get("https://" + c.BindAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	client.CloseIdleConnections()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without credentials: %s", answer.Status)
	}
}

// A missing file is an error at startup: nothing is served in its place.
func TestMetricsCertificateIsMissing(t *testing.T) {
	_, err := open(frontend.MetricsConfig{BindAddress: "127.0.0.1:0", CertFile: "nosuch.crt", KeyFile: "nosuch.key"})
	if err == nil || !strings.Contains(err.Error(), "nosuch.crt") {
		t.Errorf("error %v", err)
	}
}
