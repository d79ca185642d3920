// Package wfe stands in for Pebble's: its handler is that of an endpoint of certplane.
package wfe

import (
	"log"
	"net/http"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/standin"
	"github.com/letsencrypt/pebble/v2/va"
)

// DirectoryPath is where clients begin.
const DirectoryPath = standin.DirectoryPath

// WebFrontEndImpl is what clients speak with.
type WebFrontEndImpl struct{ server *standin.Server }

// New ignores what certplane has settings of its own for.
func New(_ *log.Logger, _ *db.MemoryStore, validation *va.VAImpl, authority *ca.CAImpl, _ []string, _, _ bool, _, _ int) WebFrontEndImpl {
	server := &standin.Server{HTTPPort: validation.HTTPPort, TLSPort: validation.TLSPort, Resolver: validation.Resolver, Profiles: map[string]standin.Profile{}}
	for name, profile := range authority.Profiles {
		server.Profiles[name] = standin.Profile{Description: profile.Description, Seconds: profile.ValidityPeriod}
	}
	return WebFrontEndImpl{server}
}

// Handler returns the handler. The first request starts the server.
func (w WebFrontEndImpl) Handler() http.Handler { return w.server }
