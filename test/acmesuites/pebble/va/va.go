// Package va replaces Pebble's package va.
package va

import (
	"log"

	"github.com/letsencrypt/pebble/v2/db"
)

// VAImpl holds the settings for validating challenges.
type VAImpl struct {
	HTTPPort, TLSPort int
	// Resolver is a DNS server, HOST:PORT. The default is the system's.
	Resolver string
}

// New keeps ports and resolver. certplane's own settings replace the other arguments.
func New(_ *log.Logger, httpPort, tlsPort int, _ bool, resolver string, _ *db.MemoryStore) *VAImpl {
	return &VAImpl{httpPort, tlsPort, resolver}
}
