// Package wfe replaces Pebble's package wfe. Its handler forwards to an endpoint of certplane.
package wfe

import (
	"log"
	"net/http"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/standin"
	"github.com/letsencrypt/pebble/v2/va"
)

// DirectoryPath is the path of the ACME directory.
const DirectoryPath = standin.DirectoryPath

// WebFrontEndImpl serves the clients.
type WebFrontEndImpl struct{ server *standin.Server }

// New takes over the settings for validation and the profiles. certplane's own settings
// replace the other arguments.
func New(_ *log.Logger, _ *db.MemoryStore, validation *va.VAImpl, authority *ca.CAImpl, _ []string, _, _ bool, _, _ int) WebFrontEndImpl {
	server := &standin.Server{HTTPPort: validation.HTTPPort, TLSPort: validation.TLSPort, Resolver: validation.Resolver, Profiles: map[string]standin.Profile{}}
	for name, profile := range authority.Profiles {
		server.Profiles[name] = standin.Profile{Description: profile.Description, Seconds: profile.ValidityPeriod}
	}
	return WebFrontEndImpl{server}
}

// Handler returns the handler. The first request starts the server.
func (w WebFrontEndImpl) Handler() http.Handler { return w.server }
