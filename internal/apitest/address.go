package apitest

import (
	"testing"

	"github.com/certplane/certplane/internal/apitest/freeport"
)

// FreeAddress returns an address on loopback, HOST:PORT, at which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
