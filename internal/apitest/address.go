package apitest

import (
	"net"
	"testing"
)

// FreeAddress returns an address on loopback, HOST:PORT, on which nothing listens.
// Another process can take it at any time.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
