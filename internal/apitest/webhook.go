package apitest

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Webhook serves handler on loopback TLS until the test ends. It returns the
// address and the CA bundle for a webhook configuration.
func Webhook(t testing.TB, handler http.Handler) (url string, caBundle []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
