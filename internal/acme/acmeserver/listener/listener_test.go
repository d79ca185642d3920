package listener

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned returns a certificate of its own for 127.0.0.1, in PEM.
func selfSigned(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// start serves a handler that answers with the address of the client.
func start(t *testing.T, change func(*Settings)) (s *Server, url string) {
	t.Helper()
	settings := DefaultSettings()
	settings.Listen, settings.ExternalURL = "127.0.0.1:0", "https://acme.example.com"
	change(&settings)
	s, err := New(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, shared := ClientAddress(r.Context())
		fmt.Fprint(w, address)
		if shared {
			fmt.Fprint(w, " shared")
		}
	})
	inner, err := net.Listen("tcp", settings.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, inner) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, "https://" + inner.Addr().String()
}

// client trusts the server as a client that has fetched its roots.
func client(t *testing.T, s *Server) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Trust().PEM())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t *testing.T, c *http.Client, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	answer, err := c.Do(request)
	if err != nil {
		return nil, err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func use(t *testing.T, s *Server, name string) {
	t.Helper()
	certPEM, keyPEM := selfSigned(t, name)
	next, err := parse(certPEM, keyPEM, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Use(next.certificate, next.trust)
}

// A certificate is used from the next connection on, with the roots that belong to it.
func TestCertificateIsReplaced(t *testing.T) {
	s, url := start(t, func(*Settings) {})
	if err := s.Ready(nil); err == nil || s.Trust().PEM() != nil || s.Trust().Fingerprint() != "" {
		t.Errorf("without a certificate: ready %v, trust %v", err, s.Trust())
	}
	if answer, text := get(t, http.DefaultClient, url, nil); answer != nil {
		t.Errorf("without a certificate: %s", text)
	}
	var fingerprints []string
	for _, name := range []string{"first", "second"} {
		use(t, s, name)
		if answer, text := get(t, client(t, s), url, nil); answer == nil || answer.ProtoMajor != 2 || text != "127.0.0.1" {
			t.Errorf("with the %s certificate: %v %s", name, answer, text)
		}
		fingerprints = append(fingerprints, s.Trust().Fingerprint())
	}
	if fingerprints[0] == fingerprints[1] || !strings.HasPrefix(fingerprints[0], "SHA256:") || len(fingerprints[0]) != len("SHA256:")+64 {
		t.Errorf("fingerprints %v", fingerprints)
	}
	if err := s.Ready(nil); err != nil {
		t.Error(err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	s, url := start(t, func(*Settings) {})
	use(t, s, "a")
	c := client(t, s)
	c.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	if answer, _ := get(t, c, url, nil); answer != nil {
		t.Errorf("TLS 1.1 is answered with %d", answer.StatusCode)
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	s, url := start(t, func(*Settings) {})
	use(t, s, "a")
	c := client(t, s)
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	c.Transport.(*http.Transport).TLSClientConfig.NextProtos = []string{"http/1.1"}
	if answer, _ := get(t, c, url, http.Header{"A": {strings.Repeat("a", 2*maxHeader)}}); answer == nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 32 KiB: %v", answer)
	}
}

// Only trusted proxies say who their clients are, and only what they have written
// themselves counts.
func TestClientAddress(t *testing.T) {
	proxied, proxiedURL := start(t, func(s *Settings) {
		s.TrustedProxies = []string{"127.0.0.0/8", "10.0.0.0/8"}
		s.ClientAddresses = []string{"192.0.2.0/24", "127.0.0.0/8", "2001:db8::/32"}
	})
	direct, directURL := start(t, func(*Settings) {})
	use(t, proxied, "proxied")
	use(t, direct, "direct")
	forwarded := func(values ...string) http.Header { return http.Header{"X-Forwarded-For": values} }
	for _, tc := range []struct {
		reason string
		server *Server
		url    string
		header http.Header
		want   string
		code   int
	}{
		{"no proxy is trusted", direct, directURL, forwarded("192.0.2.1"), "127.0.0.1", 200},
		{"a proxy without a header", proxied, proxiedURL, nil, "127.0.0.1 shared", 200},
		{"a proxy", proxied, proxiedURL, forwarded("192.0.2.1"), "192.0.2.1", 200},
		{"two proxies", proxied, proxiedURL, forwarded("192.0.2.1, 10.0.0.3"), "192.0.2.1", 200},
		{"what the client has written", proxied, proxiedURL, forwarded("198.51.100.1, 192.0.2.1"), "192.0.2.1", 200},
		{"in two headers", proxied, proxiedURL, forwarded("198.51.100.1", "192.0.2.1"), "192.0.2.1", 200},
		{"nonsense behind an address", proxied, proxiedURL, forwarded("192.0.2.1, unknown"), "127.0.0.1", 200},
		{"IPv6", proxied, proxiedURL, forwarded("2001:db8::1"), "2001:db8::1", 200},
		{"with a port", proxied, proxiedURL, forwarded("[2001:db8::1]:4711"), "2001:db8::1", 200},
		{"a client elsewhere", proxied, proxiedURL, forwarded("198.51.100.1"), "", 403},
	} {
		answer, text := get(t, client(t, tc.server), tc.url, tc.header)
		if answer == nil || answer.StatusCode != tc.code || tc.code == 200 && text != tc.want {
			t.Errorf("%s: %v %q, want %d %q", tc.reason, answer, text, tc.code, tc.want)
		}
	}
}

func TestConnectionsFromElsewhereAreClosed(t *testing.T) {
	s, url := start(t, func(s *Settings) { s.ClientAddresses = []string{"192.0.2.0/24"} })
	use(t, s, "a")
	if answer, _ := get(t, client(t, s), url, nil); answer != nil {
		t.Errorf("answered with %d", answer.StatusCode)
	}
}

// One address has a bounded number of connections; a proxy has as many as it wants.
func TestConnectionsOfOneAddress(t *testing.T) {
	for _, tc := range []struct {
		proxies []string
		open    bool
	}{{nil, false}, {[]string{"127.0.0.0/8"}, true}} {
		s, url := start(t, func(s *Settings) { s.TrustedProxies = tc.proxies })
		use(t, s, "a")
		oldest := client(t, s)
		get(t, oldest, url, nil)
		reused := func() bool { // a closed connection is replaced by a new one
			before := oldest.Transport.(*http.Transport).DialContext
			defer func() { oldest.Transport.(*http.Transport).DialContext = before }()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			dialled := false
			oldest.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialled = true
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			answer, err := oldest.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			return !dialled
		}
		for range maxConnectionsFrom {
			get(t, client(t, s), url, nil)
		}
		if got := reused(); got != tc.open {
			t.Errorf("with the proxies %v, the oldest of %d connections is open: %t", tc.proxies, maxConnectionsFrom+1, got)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	settings := CertificateSettings{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	certPEM, keyPEM := selfSigned(t, "first")
	_, otherKey := selfSigned(t, "second")
	write := func(file string, data []byte) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(settings.CertFile, certPEM)
	write(settings.KeyFile, otherKey)
	on := Settings{Listen: ":0", ExternalURL: "https://acme.example.com", Certificate: settings}
	if _, err := New(t.Context(), on); err == nil || !strings.Contains(err.Error(), "acmeServer.certificate: ") {
		t.Errorf("with the key of another: %v", err)
	}
	write(settings.KeyFile, keyPEM)
	s, err := New(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	first := s.Trust().Fingerprint()
	replaced, replacedKey := selfSigned(t, "replaced")
	write(settings.CertFile, replaced)
	s.files.Look(t.Context())
	if err := s.files.Look(t.Context()); err == nil || s.Trust().Fingerprint() != first {
		t.Errorf("a certificate without its key: %v", err)
	}
	write(settings.KeyFile, replacedKey)
	s.files.Look(t.Context())
	if err := s.files.Look(t.Context()); err != nil || s.Trust().Fingerprint() == first {
		t.Errorf("the replaced certificate is not used: %v", err)
	}
	on.Certificate.RootFile = filepath.Join(dir, "ca.crt")
	if _, err := New(t.Context(), on); err == nil || !strings.Contains(err.Error(), "acmeServer.certificate.rootFile") {
		t.Errorf("without the roots: %v", err)
	}
	write(on.Certificate.RootFile, certPEM)
	if s, err = New(t.Context(), on); err != nil || s.Trust().Fingerprint() != first {
		t.Errorf("with the roots: %v", err)
	}
}

// By plain HTTP there are roots, and nothing else, whatever the path is made to look like.
func TestRootsAlone(t *testing.T) {
	settings := DefaultSettings()
	settings.Listen, settings.ExternalURL, settings.RootsListen = "127.0.0.1:0", "https://acme.example.com", "127.0.0.1:0"
	s, err := New(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(s.Trust().PEM()) })
	inner, err := net.Listen("tcp", settings.RootsListen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.serveRoots(ctx, inner) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	at := "http://" + inner.Addr().String()
	if answer, _ := get(t, http.DefaultClient, at+"/acme/corp/roots.pem", nil); answer == nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("without a certificate: %+v", answer)
	}
	use(t, s, "a")
	answer, text := get(t, http.DefaultClient, at+"/acme/corp/roots.pem", nil)
	if answer == nil || text != string(s.Trust().PEM()) || answer.Header.Get("Strict-Transport-Security") != "" {
		t.Errorf("the roots: %+v %q", answer, text)
	}
	for _, path := range []string{"/acme/corp/directory", "/acme/corp/new-nonce", "/acme//roots.pem", "/acme/corp/a/roots.pem", "/roots.pem", "/acme/corp/..%2Fdirectory", "/acme/corp/directory?/roots.pem", "/"} {
		if answer, text := get(t, http.DefaultClient, at+path, nil); answer == nil || answer.StatusCode != http.StatusNotFound || !strings.Contains(text, settings.ExternalURL) {
			t.Errorf("%s: %+v %q", path, answer, text)
		}
	}
	post, err := http.Post(at+"/acme/corp/roots.pem", "application/jose+json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if post.Body.Close(); post.StatusCode != http.StatusMethodNotAllowed || post.Header.Get("Allow") == "" {
		t.Errorf("POST: %+v", post)
	}
}
