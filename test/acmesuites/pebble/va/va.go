// Package va stands in for Pebble's.
package va

import (
	"log"

	"github.com/letsencrypt/pebble/v2/db"
)

// VAImpl is how challenges are validated.
type VAImpl struct {
	HTTPPort, TLSPort int
	// Resolver is a DNS server, HOST:PORT; empty is that of the system.
	Resolver string
}

// New ignores what certplane has settings of its own for.
func New(_ *log.Logger, httpPort, tlsPort int, _ bool, resolver string, _ *db.MemoryStore) *VAImpl {
	return &VAImpl{httpPort, tlsPort, resolver}
}
