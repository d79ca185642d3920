package apiserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// dial opens a connection to the server that is limited to patience.
func (w world) dial(t *testing.T) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(w.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// dialTLS opens a connection as the administrator.
func (w world) dialTLS(t *testing.T) *tls.Conn {
	t.Helper()
	cfg, err := rest.TLSConfigFor(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.Clone()
	cfg.ServerName = "localhost"
	conn := tls.Client(w.dial(t), cfg)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// testConnections: clients disconnect at any point.
func (w world) testConnections(t *testing.T) {
	const start = "POST /apis/certificates.k8s.io/v1/certificatesigningrequests HTTP/1.1\r\nHost: localhost\r\n"
	tests := []struct {
		reason, sent, want string // want is in the response; often a response would be useless
	}{
		{"before the request", "", ""},
		{"in a header", start + "Content-Ty", "400 Bad Request"},
		{"in the body", start + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", ""},
		{"in a chunk", start + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", ""},
		{"in a length", start + "Content-Length: -1\r\n\r\n", "400 Bad Request"},
		{"after two lengths", start + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "400 Bad Request"},
		{"speaking something else", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400 Bad Request"},
		{"in headers over the limit", start + "X: " + strings.Repeat("x", 1<<20+1<<16) + "\r\n\r\n", "431 Request Header Fields Too Large"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			conn := w.dialTLS(t)
			// Both can fail: the server need not read everything.
			_, _ = io.WriteString(conn, tc.sent)
			_ = conn.CloseWrite()
			answer, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(string(answer), tc.want) || strings.Contains(string(answer), "201 Created") {
				t.Errorf("%q, %v; want %s", answer, err, tc.want)
			}
			w.wantHealthy(t)
		})
	}
	t.Run("without TLS", func(t *testing.T) {
		conn := w.dial(t)
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "400 Bad Request") {
			t.Errorf("%q, %v", answer, err)
		}
		w.wantHealthy(t)
	})
}

// testSlowClients: clients that send nothing, or one byte at a time, do not
// delay other clients, however many they are.
func (w world) testSlowClients(t *testing.T) {
	const request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var idle []net.Conn
	for range 100 {
		idle = append(idle, w.dial(t)) // never starts a TLS handshake
	}
	var slow []net.Conn
	for range 100 {
		slow = append(slow, w.dialTLS(t))
	}
	for i := range len(request) {
		for _, conn := range slow {
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		if i%10 == 0 {
			w.wantHealthy(t)
		}
	}
	// They are slow but valid, so they get their responses.
	for _, conn := range slow {
		answer := make([]byte, len("HTTP/1.1 200 OK"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 200 OK" {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	for _, conn := range idle {
		conn.Close()
	}
	w.wantHealthy(t)
}
