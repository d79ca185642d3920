package secrets

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// echoes are servers that refuse all requests, with texts in which their headers
// and bodies are.
type echoes struct {
	mu   sync.Mutex
	seen strings.Builder // mu guards it
}

// got returns whether a secret has come to one of the servers.
func (e *echoes) got(secret string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Contains(e.seen.String(), secret)
}

// of returns the record of a request.
func (e *echoes) of(r *http.Request) string {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	text := fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen.WriteString(text)
	return text
}

// handler refuses requests with the JSON of answer.
func (e *echoes) handler(answer func(text string) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := e.of(r)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", text)
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(answer(text)) // the client may be gone
	})
}

// vault starts an echo with the errors of Vault, which says that it is well, and
// returns its root.
func (e *echoes) vault(t *testing.T) (address string, bundle []byte) {
	t.Helper()
	refuse := e.handler(func(text string) any { return map[string]any{"errors": []string{text}} })
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/sys/health" {
			_, _ = io.WriteString(w, `{"initialized": true, "sealed": false}`)
			return
		}
		refuse.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// acmeDNS starts an echo with the errors of acme-dns.
func (e *echoes) acmeDNS(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewServer(e.handler(func(text string) any { return map[string]any{"error": text} }))
	t.Cleanup(s.Close)
	return s.URL
}

// providerHosts are the APIs of DNS providers whose addresses are fixed.
var providerHosts = []string{"api.cloudflare.com", "desec.io"}

// providers starts an echo with the errors of Cloudflare and deSEC.
func (e *echoes) providers(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(e.handler(func(text string) any {
		return map[string]any{"success": false, "errors": []map[string]any{{"code": 9109, "message": text}}, "detail": text}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{internet.certificate}}
	s.StartTLS()
	t.Cleanup(s.Close)
	internet.target.Store(s.Listener.Addr().String())
}

// outside stands for all that is not on this host: a proxy with one server
// behind it, and its certificate. Processes read once from their environment how
// to get there.
type outside struct {
	certificate tls.Certificate
	target      atomic.Value // of string: HOST:PORT
}

var internet outside

// open changes the environment of this process.
func (o *outside) open(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: providerHosts, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	o.certificate = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	roots := filepath.Join(dir, "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	proxy := httptest.NewServer(http.HandlerFunc(o.connect)) // until the process ends
	return errors.Join(os.Setenv("SSL_CERT_FILE", roots), os.Setenv("HTTPS_PROXY", proxy.URL))
}

// connect is the method CONNECT of a proxy.
func (o *outside) connect(w http.ResponseWriter, r *http.Request) {
	target, _ := o.target.Load().(string)
	if r.Method != http.MethodConnect || !slices.Contains(providerHosts, strings.TrimSuffix(r.Host, ":443")) || target == "" {
		http.Error(w, "not here", http.StatusBadGateway)
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer far.Close()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(far, near); far.Close() }()
	_, _ = io.Copy(near, far)
}
