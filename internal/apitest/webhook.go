package apitest

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Webhook serves handler on loopback TLS until the test ends. It returns the
// address and the CA bundle for a webhook configuration.
func Webhook(t testing.TB, handler http.Handler) (url string, caBundle []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// ServiceWebhook serves handler on loopback TLS until the test ends, with a
// certificate for the DNS name of a Service. It returns the port and the CA
// bundle for a webhook configuration that names the Service.
func ServiceWebhook(t testing.TB, namespace, name string, handler http.Handler) (port int32, caBundle []byte) {
	t.Helper()
	now := time.Now()
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "webhook CA", NewKey(t), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	key := NewKey(t)
	subject := pki.Subject{CommonName: name, DNSNames: []string{name + "." + namespace + ".svc"}}
	chain, err := ca.Issue(pki.UnrecordedSigning, subject, key.Public(), pki.ServerUsages(), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{chain[0].Raw}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return int32(server.Listener.Addr().(*net.TCPAddr).Port), pki.EncodeCertificates(ca.Certificate())
}
